"""What hotlap's adapter adds to the `mettagrid` package's own step. One core; the package must be installed.

    python benchmarks/mettagrid_adapter.py

The same simulations of four agents with the same actions, in turn: as a hotlap vector environment, and by the package's public
`Simulation.step` alone, its actions written where it reads them. Goal: at most 15% more. Neither side ever resets.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from side_by_side import interleave, pin_to_one_core, save, speedup

from hotlap.envs.vector import make_gym

LIMIT = 1.15
AGENT_STEPS = 12_000


def contenders(num_envs: int) -> dict[str, Callable[[], int]]:
    env: Any = make_gym("mettagrid/", num_envs, max_steps=0, seed=0)
    env.reset(seed=0)
    steps = AGENT_STEPS // env.num_envs
    actions = np.random.default_rng(0).integers(0, env.single_action_space.n, (steps, env.num_envs))
    simulations = [one.simulation for one in env.engine.envs]
    places = [one.arrays.actions for one in env.engine.envs]
    each = actions.reshape(steps, num_envs, -1).astype(np.int32)

    def adapter() -> int:
        for action in actions:
            env.step(action)
        return int(actions.size)

    def package() -> int:
        for step in each:
            for simulation, place, action in zip(simulations, places, step, strict=True):
                place[:] = action
                simulation.step()
        return int(actions.size)

    return {"adapter": adapter, "mettagrid": package}


def main() -> None:
    pin_to_one_core()
    results = {}
    for num_envs in (8, 64):
        compared = speedup(interleave(contenders(num_envs)), "adapter", "mettagrid")
        results[f"4 agents, {num_envs} environments: adapter's time / mettagrid's own"] = {**compared, "at_most": LIMIT}
        print(f"{num_envs} environments, agent-steps/s:", {name: round(rate) for name, rate in compared["per_second"].items()})
    sys.exit(0 if save("mettagrid_adapter", "python benchmarks/mettagrid_adapter.py", results) else 1)


if __name__ == "__main__":
    main()

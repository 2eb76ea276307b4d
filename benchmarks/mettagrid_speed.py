"""MettaGrid: the kernel against its reference, and against the package `mettagrid` where that is installed. One core.

All replay random actions that were drawn before. Against the package: the same map of walls and agents, a window of 11 x 11 and
200 tokens in both, as many agents and environments. The package is timed by its public `Simulation.step`, and by the step in
C++ alone that this calls; neither ever resets. With a single environment, hotlap's time is that of a call of `step` in Python;
the goal is set for as many environments as training has. (A script with the package's own name would hide it.)

python benchmarks/mettagrid_speed.py
"""

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from side_by_side import err, interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.envs.layout import draw_legal
from hotlap.envs.mettagrid.generate import Generator
from hotlap.envs.mettagrid.objects import Kind
from hotlap.envs.mettagrid.tokens import EMPTY
from hotlap.envs.rng import Rng

REFERENCE_CASES: dict[str, tuple[dict[str, Any], int]] = {  # options and environments of the kernel
    "navigation, 4 agents, 64 envs": ({}, 64),
    "arena, 4 agents, 1,024 envs": ({"task": "arena"}, 1_024),
    "arena, rooms, 24 agents, 64 envs": ({"task": "arena", "generator": "rooms", "agents": 24}, 64),
}
PACKAGE_CASES = ((4, 1), (4, 64), (24, 16))  # agents, environments
GOAL = 10  # times the package
AGENT_STEPS, REFERENCE_STEPS, REFERENCE_ENVS = 200_000, 20, 2
PACKAGE_AGENT_STEPS = 20_000
SIDE = 32


def walled_map(agents: int) -> str:
    """A map of 32 x 32 with 28 walls, and agents on it."""
    cells = Generator("open", SIDE, SIDE, {Kind.WALL: 28}).make(Rng(0))
    symbols = np.where(cells == 0, ".", "#")
    free = np.argwhere(cells == 0)
    for row, column in free[np.random.default_rng(0).permutation(len(free))[:agents]]:
        symbols[row, column] = "@"
    return "\n".join("".join(line) for line in symbols)


def replay(options: dict[str, Any], num_envs: int, turbo: bool, steps: int) -> Callable[[], int]:
    """A contender that replays random legal actions and counts steps of agents."""
    env = hotlap.make_vec("mettagrid", num_envs, turbo=turbo, seed=0, **options)
    random, (_, info) = np.random.default_rng(0), env.reset(seed=0)
    actions = []
    for _ in range(steps):
        actions.append(draw_legal(env.single_action_space, info["action_mask"], random))
        info = env.step(actions[-1])[4]

    def run() -> int:
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        return steps * env.num_envs

    return run


class Package:
    """Simulations of the package, one after another, that write into arrays of their own."""

    def __init__(self, agents: int, num_envs: int) -> None:
        from mettagrid.config.mettagrid_config import (
            ActionsConfig,
            GameConfig,
            MettaGridConfig,
            MoveActionConfig,
            NoopActionConfig,
            ObsConfig,
            WallConfig,
        )
        from mettagrid.map_builder.ascii import AsciiMapBuilder
        from mettagrid.simulator import Simulator

        symbols = {"#": "wall", ".": "empty", "@": "agent.agent"}
        config = MettaGridConfig(
            game=GameConfig(
                num_agents=agents,
                max_steps=0,
                obs=ObsConfig(width=11, height=11, num_tokens=200),
                actions=ActionsConfig(noop=NoopActionConfig(enabled=True), move=MoveActionConfig(enabled=True)),
                objects={"wall": WallConfig()},
                map_builder=AsciiMapBuilder.Config(map_data=walled_map(agents).splitlines(), char_to_map_name=symbols),
            )
        )
        self.agents, self.buffers = agents, [_buffers(agents) for _ in range(num_envs)]
        self.simulations = [Simulator().new_simulation(config, seed, buffers=one) for seed, one in enumerate(self.buffers)]
        choices = len(self.simulations[0].action_names)
        self.steps = max(1, PACKAGE_AGENT_STEPS // (agents * num_envs))
        self.actions = np.random.default_rng(0).integers(0, choices, (self.steps, num_envs, agents), np.int32)

    def run(self) -> int:
        return self._run([simulation.step for simulation in self.simulations])

    def run_core(self) -> int:
        return self._run([simulation._c_sim.step for simulation in self.simulations])

    def _run(self, each: list[Callable[[], None]]) -> int:
        for actions in self.actions:
            for step, buffers, action in zip(each, self.buffers, actions, strict=True):
                buffers.actions[:] = action
                step()
        return self.actions.size


def _buffers(agents: int) -> Any:
    from mettagrid.simulator.simulator import Buffers

    return Buffers(
        observations=np.zeros((agents, 200, 3), np.uint8),
        terminals=np.zeros(agents, np.bool_),
        truncations=np.zeros(agents, np.bool_),
        rewards=np.zeros(agents, np.float32),
        masks=np.ones(agents, np.bool_),
        actions=np.zeros(agents, np.int32),
        vibe_actions=np.zeros(agents, np.int32),
        teacher_actions=np.zeros(agents, np.int32),
    )


def against_reference() -> dict[str, Any]:
    results = {}
    for title, (options, num_envs) in REFERENCE_CASES.items():
        steps = AGENT_STEPS // (num_envs * options.get("agents", 4))
        contenders = {
            "reference": replay(options, REFERENCE_ENVS, turbo=False, steps=REFERENCE_STEPS),
            "kernel": replay(options, num_envs, turbo=True, steps=steps),
        }
        results[f"mettagrid, {title}: kernel / reference"] = result = speedup(interleave(contenders), "reference", "kernel")
        print(f"{title}: {result['per_second']['kernel'] / 1e6:.2f}M agent-steps/s")
    return results


def against_package() -> dict[str, Any]:
    results = {}
    for agents, num_envs in PACKAGE_CASES:
        options = {"task": "arena", "map": walled_map(agents)}
        package, steps = Package(agents, num_envs), max(1, AGENT_STEPS // (agents * num_envs))
        contenders = {
            "mettagrid": package.run,
            "mettagrid's C++ step": package.run_core,
            "hotlap": replay(options, num_envs, turbo=True, steps=steps),
        }
        samples = interleave(contenders)
        for slow in ("mettagrid", "mettagrid's C++ step"):
            title = f"{agents} agents, {num_envs} envs: hotlap / {slow}"
            results[title] = {**speedup(samples, slow, "hotlap"), **({"goal": GOAL} if num_envs > 1 else {})}
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in results[title]["per_second"].items())
        used = np.mean([(buffers.observations[..., 0] != EMPTY).sum(1) for buffers in package.buffers])
        print(f"{agents} agents, {num_envs} environments, agent-steps/s: {rates}; mettagrid uses {used:.0f} tokens on average")
    return results


def main() -> None:
    pin_to_one_core()
    results = against_reference()
    if find_spec("mettagrid"):
        results |= against_package()
    else:
        err.print("The package mettagrid is not installed here: hotlap is not compared with it.")
    sys.exit(0 if save("mettagrid_speed", "python benchmarks/mettagrid_speed.py", results) else 1)


if __name__ == "__main__":
    main()

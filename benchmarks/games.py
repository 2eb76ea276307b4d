"""Connect Four and Predators: the kernels against their references. One core.

Both replay actions that were recorded before, so that no time goes into choosing them.

python benchmarks/games.py
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from side_by_side import interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.train.rating import play_at_random

STEPS, REFERENCE_STEPS = 512, 24
GAMES: dict[str, tuple[str, dict[str, Any], int, int]] = {  # name, options, environments of the kernel and of the reference
    "connect4, 256 envs": ("connect4", {}, 256, 32),
    "connect4, 4,096 envs": ("connect4", {}, 4_096, 32),
    "predators, 4 agents, 64 envs": ("predators", {}, 64, 8),
    "predators, 4 agents, 1,024 envs": ("predators", {}, 1_024, 8),
    "predators, 16 agents, 64 envs": ("predators", {"agents": 16, "prey": 24}, 64, 2),
}


def replay(name: str, options: dict[str, Any], num_envs: int, turbo: bool, steps: int) -> Callable[[], int]:
    """A contender that replays random legal actions and counts moves, or steps of agents."""
    env = hotlap.make_vec(name, num_envs, turbo=turbo, seed=0, **options)
    rng = np.random.default_rng(0)
    obs, info = env.reset()
    actions = []
    for _ in range(steps):
        actions.append(play_at_random(obs, info["action_mask"], rng))
        obs, _, _, _, info = env.step(actions[-1])

    def run() -> int:
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        return steps * env.num_envs

    return run


def compare(name: str, options: dict[str, Any], num_envs: int, reference_envs: int) -> dict[str, Any]:
    contenders = {
        "reference": replay(name, options, reference_envs, turbo=False, steps=REFERENCE_STEPS),
        "kernel": replay(name, options, num_envs, turbo=True, steps=STEPS),
    }
    result = speedup(interleave(contenders), "reference", "kernel")
    print(f"{name}, {num_envs} environments: {result['per_second']['kernel'] / 1e6:.1f}M steps/s")
    return result


def main() -> None:
    pin_to_one_core()
    results = {f"{title}: kernel / reference": compare(*case) for title, case in GAMES.items()}
    sys.exit(0 if save("games", "python benchmarks/games.py", results) else 1)


if __name__ == "__main__":
    main()

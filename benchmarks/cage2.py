"""CAGE Challenge 2: the kernel against its reference, and against the recorded speed of CybORG; training with the preset `fast`
against `seed`. One core.

Kernel and reference replay random actions that were drawn before. CybORG was timed when the recordings in tests/data/cage2 were
made, on another machine: that ratio is an order of magnitude. A preset trains for one iteration: sampling and learning.

python benchmarks/cage2.py
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.core import stats
from hotlap.core.clock import StageClock
from hotlap.systems import load

RECORDINGS = Path(__file__).parents[1] / "tests" / "data" / "cage2"
RECORDED_STEPS = 100  # that `step_seconds` of an episode are the time of
CASES: dict[str, tuple[dict[str, Any], int]] = {  # options and environments of the kernel
    "b_line, 256 envs": ({"red": "b_line"}, 256),
    "meander, 256 envs": ({"red": "meander"}, 256),
    "meander, 4,096 envs": ({"red": "meander"}, 4_096),
    "mixed, scans, merged actions, 1,024 envs": ({"red": "mixed", "observation": "scans", "actions": "merged"}, 1_024),
}
GOAL = 300  # times the reference
STEPS, REFERENCE_STEPS, REFERENCE_ENVS = 500, 100, 4
TRAINING_ROUNDS = 7


def replay(options: dict[str, Any], num_envs: int, turbo: bool, steps: int) -> Callable[[], int]:
    """A contender that replays random actions of Blue."""
    env = hotlap.make_vec("cage2", num_envs, turbo=turbo, seed=0, **options)
    actions = np.random.default_rng(0).integers(0, env.env_spec.choices, (steps, num_envs))

    def run() -> int:
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        return steps * num_envs

    return run


def compare(options: dict[str, Any], num_envs: int) -> dict[str, Any]:
    contenders = {
        "reference": replay(options, REFERENCE_ENVS, turbo=False, steps=REFERENCE_STEPS),
        "kernel": replay(options, num_envs, turbo=True, steps=STEPS),
    }
    result = speedup(interleave(contenders), "reference", "kernel")
    rates = result["per_second"]
    print(f"{options}, {num_envs:,} environments: {rates['kernel'] / 1e6:.1f}M steps/s, reference {rates['reference']:,.0f}")
    return {**result, "goal": GOAL}


def training(preset: str) -> Callable[[], int]:
    """A contender: one iteration of PPO."""
    system = load("cage2")
    config = replace(system.preset(preset), torch_threads=1, env_threads=1)
    env, clock = system.make_env(config), StageClock(enabled=False)
    state = system.start(config, env)

    def run() -> int:
        system.trainer.iterate(state, config, env, clock)
        return int(config.horizon * config.num_envs)

    return run


def against_cyborg(kernel: list[float], red: str) -> dict[str, Any]:
    """The recorded seconds per step of CybORG over those of the kernel here."""
    with np.load(RECORDINGS / f"{red.replace('_', '')}.npz", allow_pickle=False) as recording:
        recorded = (recording["step_seconds"].astype(float) / RECORDED_STEPS).tolist()
    here = stats.summarize(kernel).median
    ratio, low, high = stats.paired_ratio(recorded, [here] * len(recorded))
    rates = {"CybORG, recorded": 1 / stats.summarize(recorded).median, "kernel": 1 / here}
    return {"slow": "CybORG, recorded", "fast": "kernel", "speedup": ratio, "ci95": [low, high], "per_second": rates}


def main() -> None:
    pin_to_one_core()
    results = {}
    for title, (options, num_envs) in CASES.items():
        result = compare(options, num_envs)
        results[f"cage2, {title}: kernel / reference"] = result
        if options["red"] != "mixed":
            results[f"cage2, {title}: kernel / CybORG"] = against_cyborg(result["seconds"]["kernel"], options["red"])
    presets = interleave({preset: training(preset) for preset in ("seed", "fast")}, TRAINING_ROUNDS)
    results["cage2, PPO, sampling and learning: fast / seed"] = speedup(presets, "seed", "fast")
    results["cage2, PPO, sampling and learning: fast / CybORG alone"] = against_cyborg(presets["fast"], "b_line") | {
        "goal": GOAL
    }
    sys.exit(0 if save("cage2", "python benchmarks/cage2.py", results) else 1)


if __name__ == "__main__":
    main()

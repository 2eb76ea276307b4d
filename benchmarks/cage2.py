"""CAGE Challenge 2: the kernel against its reference and against CybORG; training with the preset `fast` against `seed` and
against CybORG. One core.

    python benchmarks/cage2.py [--cyborg PYTHON]

Kernel and reference replay random actions that were drawn before. `--cyborg` names a Python that has the real CybORG 2.1, which
then is one of the contenders. Without it, CybORG's speed is that of the recordings in tests/data/cage2, from another machine:
an order of magnitude. A preset trains for one iteration: sampling and learning. CybORG only samples, with random actions, so
its row leaves out what the learning of the original took.
"""

import argparse
import subprocess
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
CYBORG, CYBORG_STEPS = "CybORG", 200


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


def cyborg(python: str) -> Callable[[], int]:
    """A contender: the real CybORG, in an interpreter of its own, on the same core."""
    script = Path(__file__).with_name("scripts") / "cyborg_steps.py"
    process = subprocess.Popen([python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run() -> int:
        assert process.stdin is not None and process.stdout is not None
        print(CYBORG_STEPS, file=process.stdin, flush=True)
        if not process.stdout.readline():
            raise SystemExit(f"{python} could not run {script.name}: does it have CybORG 2.1?")
        return CYBORG_STEPS

    return run


def against_recorded(kernel: list[float], red: str) -> dict[str, Any]:
    """The recorded seconds per step of CybORG over those of the kernel here."""
    with np.load(RECORDINGS / f"{red.replace('_', '')}.npz", allow_pickle=False) as recording:
        recorded = (recording["step_seconds"].astype(float) / RECORDED_STEPS).tolist()
    here = stats.summarize(kernel).median
    ratio, low, high = stats.paired_ratio(recorded, [here] * len(recorded))
    rates = {"CybORG, recorded": 1 / stats.summarize(recorded).median, "kernel": 1 / here}
    return {"slow": "CybORG, recorded", "fast": "kernel", "speedup": ratio, "ci95": [low, high], "per_second": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cyborg", metavar="PYTHON", help="a Python that has CybORG 2.1")
    python = parser.parse_args().cyborg
    pin_to_one_core()
    results = {}
    for title, (options, num_envs) in CASES.items():
        result = compare(options, num_envs)
        results[f"cage2, {title}: kernel / reference"] = result
        if options["red"] != "mixed":
            results[f"cage2, {title}: kernel / CybORG"] = against_recorded(result["seconds"]["kernel"], options["red"])
    contenders = {preset: training(preset) for preset in ("seed", "fast")} | ({CYBORG: cyborg(python)} if python else {})
    samples = interleave(contenders, TRAINING_ROUNDS)
    results["cage2, PPO, sampling and learning: fast / seed"] = speedup(samples, "seed", "fast")
    alone = speedup(samples, CYBORG, "fast") if python else against_recorded(samples["fast"], "b_line")
    results["cage2, PPO, sampling and learning: fast / CybORG alone"] = alone | {"goal": GOAL}
    command = "python benchmarks/cage2.py" + (" --cyborg PYTHON" if python else "")
    sys.exit(0 if save("cage2", command, results) else 1)


if __name__ == "__main__":
    main()

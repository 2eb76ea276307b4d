"""hotlap's PPO against Stable-Baselines3 and a PPO in one plain file: Gymnasium's CartPole, 8 environments, the same recipe.

    python benchmarks/ppo.py
    python benchmarks/ppo.py --against WORKTREE

Each contender runs in fresh processes, interleaved; the script itself says how many steps per second its loop made, and how
long its last hundred episodes were. `--against` instead compares this checkout of hotlap with another one, each with its own
scripts: the same recipe, and the native CartPole of `ppo_native.py`.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from side_by_side import err, save, speedup

from hotlap.core import machine

ROOT = Path(__file__).resolve().parent.parent
CONTENDERS = {"hotlap": "hotlap_ppo.py", "SB3": "sb3_ppo.py", "one plain file": "plain_ppo.py"}
STEPS, NATIVE_STEPS, ROUNDS, GOAL = 40_960, {"mlp": 262_144 * 20, "lstm": 262_144 * 6}, 5, 3
BATCH_SIZES = (64, 128, 256)


def run(script: str, *arguments: Any, checkout: Path = ROOT) -> dict[str, float]:
    """What a script of a checkout says about its run with that checkout's hotlap."""
    command = [sys.executable, str(checkout / "benchmarks" / "scripts" / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    return {
        name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name.startswith(("steps", "mean"))
    }


def against_others() -> None:
    coin = random.Random(0)
    results: dict[str, Any] = {}
    for batch_size in BATCH_SIZES:
        samples: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        returns: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for number in range(ROUNDS):
            err.print(f"minibatch {batch_size}: round {number + 1} of {ROUNDS}")
            for name in coin.sample(list(CONTENDERS), len(CONTENDERS)):
                result = run(CONTENDERS[name], STEPS, batch_size)
                samples[name].append(1 / result["steps_per_s"])
                returns[name].append(result.get("mean_return", float("nan")))
        for name in ("SB3", "one plain file"):
            pair = {key: samples[key] for key in (name, "hotlap")}
            extra = {
                "goal": GOAL,
                "mean_return": {key: returns[key] for key in (name, "hotlap") if returns[key][0] == returns[key][0]},
            }
            results[f"minibatch {batch_size}: hotlap against {name}"] = speedup(pair, name, "hotlap") | extra
    save("ppo", "python benchmarks/ppo.py", results)


def against_checkout(other: Path, rounds: int) -> None:
    coin = random.Random(0)
    recipes: dict[str, tuple[Any, ...]] = {f"minibatch {size}": ("hotlap_ppo.py", STEPS, size) for size in BATCH_SIZES}
    recipes |= {f"native, {kind}": ("native_hotlap.py", kind, steps) for kind, steps in NATIVE_STEPS.items()}
    checkouts = {"before": other, "now": ROOT}
    results: dict[str, Any] = {}
    for title, (script, *arguments) in recipes.items():
        samples: dict[str, list[float]] = {name: [] for name in checkouts}
        for number in range(rounds):
            err.print(f"{title}: round {number + 1} of {rounds}")
            for name in coin.sample(list(checkouts), len(checkouts)):
                samples[name].append(1 / run(script, *arguments, checkout=checkouts[name])["steps_per_s"])
        results[title] = speedup(samples, "before", "now") | {"before_commit": machine.git_commit(other)}
    save("ppo_against", "python benchmarks/ppo.py --against WORKTREE", results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="WORKTREE", help="another checkout of hotlap")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each checkout per recipe, with --against")
    arguments = parser.parse_args()
    if arguments.against is None:
        against_others()
    else:
        against_checkout(arguments.against.resolve(), arguments.rounds)


if __name__ == "__main__":
    main()

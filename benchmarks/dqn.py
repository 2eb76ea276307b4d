"""hotlap's DQN against Stable-Baselines3, against a prioritised DQN in one plain file, and against an older hotlap on Snake.

    python benchmarks/dqn.py sb3                    4 CartPoles of Gymnasium, one update of 128 per vector step, 64-64 units
    python benchmarks/dqn.py turbo                  the same, with hotlap's own CartPole
    python benchmarks/dqn.py prioritised            the same with prioritised replay, against one plain file
    python benchmarks/dqn.py snake --against PATH   Snake's fast preset to 30 apples; PATH: a checkout of an older hotlap

Contenders run in fresh processes, interleaved in random order. A script itself says how fast its loop was. Results of the parts
are kept together in results/dqn.json, each with its command, date and machine.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from side_by_side import err, keep, show, speedup

from hotlap.core import machine

SCRIPTS = Path(__file__).with_name("scripts")
ALPHA = "0.6"
PAIRS = {  # of scripts with their arguments after the number of steps: the slow one, hotlap, the speedup aimed at
    "sb3": ("SB3", ("sb3_dqn.py",), ("hotlap_dqn.py",), 4),
    "turbo": ("SB3, turbo for hotlap", ("sb3_dqn.py",), ("hotlap_dqn.py", "0", "turbo"), 4),
    "prioritised": ("one plain file, prioritised", ("plain_prioritised_dqn.py",), ("hotlap_dqn.py", ALPHA), 4),
}
SEEDS, APPLES = (0, 1, 2), 30


def run(script: str, *arguments: str, source: Path | None = None) -> dict[str, float]:
    """What a script says about itself; with the hotlap of another checkout, if given."""
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source / "src")})
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines)}


def compare(part: str, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds per step of a pair, interleaved."""
    name, theirs, ours, goal = PAIRS[part]
    scripts = {name: theirs, "hotlap": ours}
    samples: dict[str, list[float]] = {key: [] for key in scripts}
    others: dict[str, list[dict[str, float]]] = {key: [] for key in scripts}
    coin = random.Random(0)
    for number in range(rounds):
        err.print(f"{part}: round {number + 1} of {rounds}")
        for key in coin.sample(list(scripts), len(scripts)):
            script, *arguments = scripts[key]
            printed = run(script, str(steps), *arguments)
            samples[key].append(1 / printed.pop("steps_per_s"))
            others[key].append(printed)
    extra = {"goal": goal, "steps": steps, "printed": others}
    return {f"hotlap against {name}": speedup(samples, name, "hotlap") | extra}


def snake(older: Path) -> dict[str, Any]:
    """Seconds of training to 30 apples, each seed with both; and seconds per step, which do not depend on when that was."""
    sources = {"older": older, "hotlap": Path(__file__).parents[1]}
    samples: dict[str, list[float]] = {key: [] for key in sources}
    per_step: dict[str, list[float]] = {key: [] for key in sources}
    others: dict[str, list[dict[str, float]]] = {key: [] for key in sources}
    coin = random.Random(0)
    for seed in SEEDS:
        for key in coin.sample(list(sources), len(sources)):
            printed = run("snake_to_score.py", str(seed), str(APPLES), source=sources[key])
            err.print(f"snake, seed {seed}, {key}: {printed['seconds']:.1f} s, {printed['score']:.1f} apples")
            if printed["score"] < APPLES:
                sys.exit(f"{key} did not reach {APPLES} apples with seed {seed}")
            samples[key].append(printed["seconds"])
            per_step[key].append(1 / printed["steps_per_s"])
            others[key].append(printed)
    commit = {"older_commit": machine.git_commit(older)}
    return {
        f"Snake to {APPLES} apples": speedup(samples, "older", "hotlap") | {"goal": 1, "printed": others} | commit,
        "Snake, seconds per step": speedup(per_step, "older", "hotlap") | commit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PAIRS, "snake"])
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", type=Path, help="a checkout of an older hotlap")
    options = parser.parse_args()
    if options.part == "snake" and options.against is None:
        parser.error("snake needs --against PATH")
    if options.part == "snake":
        results, flags = snake(options.against.resolve()), "--against WORKTREE"
    else:
        results = compare(options.part, options.steps, options.rounds)
        flags = f"--steps {options.steps} --rounds {options.rounds}"
    path = keep("dqn", f"python benchmarks/dqn.py {options.part} {flags}", results)
    sys.exit(0 if show(results, path) else 1)


if __name__ == "__main__":
    main()

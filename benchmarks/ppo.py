"""hotlap's PPO against Stable-Baselines3 and a PPO in one plain file: Gymnasium's CartPole, 8 environments, the same recipe.

    python benchmarks/ppo.py

Each contender runs in fresh processes, interleaved; the script itself says how many steps per second its loop made, and how
long its last hundred episodes were.
"""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from side_by_side import err, save, speedup

SCRIPTS = Path(__file__).with_name("scripts")
CONTENDERS = {"hotlap": "hotlap_ppo.py", "SB3": "sb3_ppo.py", "one plain file": "plain_ppo.py"}
STEPS, ROUNDS, GOAL = 40_960, 5, 3


def run(script: str, minibatch: int) -> dict[str, float]:
    command = [sys.executable, str(SCRIPTS / script), str(STEPS), str(minibatch)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {
        name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name.startswith(("steps", "mean"))
    }


def main() -> None:
    coin = random.Random(0)
    results: dict[str, Any] = {}
    for minibatch in (64, 128, 256):
        samples: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        returns: dict[str, list[float]] = {name: [] for name in CONTENDERS}
        for number in range(ROUNDS):
            err.print(f"minibatch {minibatch}: round {number + 1} of {ROUNDS}")
            for name in coin.sample(list(CONTENDERS), len(CONTENDERS)):
                result = run(CONTENDERS[name], minibatch)
                samples[name].append(1 / result["steps_per_s"])
                returns[name].append(result.get("mean_return", float("nan")))
        for name in ("SB3", "one plain file"):
            pair = {key: samples[key] for key in (name, "hotlap")}
            extra = {
                "goal": GOAL,
                "mean_return": {key: returns[key] for key in (name, "hotlap") if returns[key][0] == returns[key][0]},
            }
            results[f"minibatch {minibatch}: hotlap against {name}"] = speedup(pair, name, "hotlap") | extra
    save("ppo", "python benchmarks/ppo.py", results)


if __name__ == "__main__":
    main()

"""Snake as a user runs it: does the fast preset learn, in how long, and what does profiling it cost?

python benchmarks/snake.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import RESULTS, err

SEEDS = (0, 1, 2)
SCORE_GOAL, SECONDS_GOAL = 20, 180
UNATTRIBUTED_GOAL, OVERHEAD_GOAL = 0.03, 0.02


def hotlap(*arguments: str) -> dict[str, Any]:
    """Run the command and read the JSON document it prints."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hotlap", *arguments, "--out", str(Path(folder) / "run"), "--json"]
        document: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    document["run"] = document["checkpoint"] = None  # the folder is gone
    return document


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    trained, missed = [], 0
    for seed in SEEDS:
        err.print(f"training with seed {seed}")
        doc = hotlap("train", "snake", "--preset", "fast", "--seed", str(seed))
        evaluation = doc["evaluation"]
        met = evaluation["score_ci95"][0] >= SCORE_GOAL and doc["seconds"] <= SECONDS_GOAL
        missed += not met
        print(
            f"seed {seed}: {evaluation['mean_score']:.1f} apples (95% {evaluation['score_ci95'][0]:.1f}-"
            f"{evaluation['score_ci95'][1]:.1f}, {evaluation['episodes']} greedy episodes) after {doc['seconds']:.0f} s   "
            f"goal {SCORE_GOAL} within {SECONDS_GOAL} s: {'met' if met else 'NOT met'}"
        )
        keep = ("schema", "config", "evaluation", "seconds", "counts", "throughput", "stages", "machine", "windows")
        trained.append({"command": f"hotlap train snake --preset fast --seed {seed}", **{key: doc[key] for key in keep}})
    (RESULTS / "snake_fast.json").write_text(json.dumps(trained, indent=1) + "\n")

    err.print("profiling, 60 iterations")
    doc = hotlap("profile", "snake", "--iterations", "60")
    ab = doc["overhead_ab"]
    met = doc["unattributed"] <= UNATTRIBUTED_GOAL and doc["overhead"] <= OVERHEAD_GOAL
    missed += not met
    print(
        f"unattributed {doc['unattributed']:.2%}, cost of measuring {doc['overhead']:.2%} "
        f"(counted {doc['overhead_counted']:.2%}, "
        f"measured/bare {ab['ratio']:.4f}, 95% {ab['ci95'][0]:.4f}-{ab['ci95'][1]:.4f}, {ab['pairs']} pairs)   "
        f"goal {UNATTRIBUTED_GOAL:.0%} and {OVERHEAD_GOAL:.0%}: {'met' if met else 'NOT met'}"
    )
    document = {"command": "hotlap profile snake --iterations 60", **doc}
    (RESULTS / "snake_profile.json").write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

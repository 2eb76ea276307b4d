"""How often `hotlap compare` calls a script different from itself, with a core of its own and beside a busy neighbour.

    python benchmarks/compare_alike.py [--trials 200] [--jobs 2] [--note "what else ran"]

Each trial is a comparison of 15 seconds through the command line: the same script twice, told apart by an environment variable
that it does not read. Every other trial shares its core with a process that computes without end. Each job has one core.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import Progress
from side_by_side import err, write

HERE = Path(__file__).parent
FOREVER = "100000000"
SCRIPTS = {
    "plain PPO": [str(HERE / "scripts" / "plain_ppo.py"), FOREVER],
    "SB3 PPO": [str(HERE / "scripts" / "sb3_ppo.py"), FOREVER],
    "plain prioritised DQN": [str(HERE / "scripts" / "plain_prioritised_dqn.py"), FOREVER],
    "Snake DQN": [str(HERE.parent / "casestudies" / "snake_dqn.py")],
}
BUSY = "while True: pass"


@contextmanager
def neighbour(core: int, busy: bool) -> Iterator[None]:
    """A process that wants the core all the time, if it is to be busy."""
    if not busy:
        yield
        return
    other = subprocess.Popen(["taskset", "--cpu-list", str(core), sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def trial(number: int, core: int, folder: Path) -> dict[str, Any]:
    name = list(SCRIPTS)[number // 2 % len(SCRIPTS)]
    busy = bool(number % 2)
    command = ["taskset", "--cpu-list", str(core), sys.executable, "-m", "hotlap", "compare", " ".join(SCRIPTS[name])]
    flags = ["--vary", "NOTHING=0,1", "--budget", "15s", "--no-control", "--python", sys.executable, "--json"]
    with neighbour(core, busy):
        done = subprocess.run([*command, *flags], cwd=folder, capture_output=True, text=True, check=False)
    said = {"trial": number, "script": name, "busy": busy}
    if done.returncode:
        return said | {"verdict": "failed", "error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    compared = json.loads(done.stdout)["comparisons"][0]
    return said | {key: compared[key] for key in ("verdict", "ratio", "ci95", "smallest_effect")}


def summary(trials: list[dict[str, Any]]) -> dict[str, Any]:
    judged = [t for t in trials if t["verdict"] != "failed"]
    different = [t for t in judged if t["verdict"] in ("faster", "slower")]
    return {
        "trials": len(trials),
        "failed": len(trials) - len(judged),
        "called different": len(different) / len(judged) if judged else None,
        "too few samples": sum(t["verdict"] == "too few samples" for t in judged),
        "median smallest effect": sorted(t["smallest_effect"] or 9.0 for t in judged)[len(judged) // 2] if judged else None,
    }


def summaries(trials: list[dict[str, Any]]) -> dict[str, Any]:
    groups = {"alone": [t for t in trials if not t["busy"]], "busy neighbour": [t for t in trials if t["busy"]], "all": trials}
    return {name: summary(group) for name, group in groups.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="comparisons at a time, a core each")
    parser.add_argument("--note", default="", help="what else the machine did meanwhile")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in sorted(os.sched_getaffinity(0))[: args.jobs]:
        cores.put(core)
    trials: list[dict[str, Any]] = []

    def run(number: int) -> dict[str, Any]:
        core = cores.get()
        try:
            with tempfile.TemporaryDirectory() as folder:
                return trial(number, core, Path(folder))
        finally:
            cores.put(core)

    with ThreadPoolExecutor(args.jobs) as pool, Progress(console=err) as progress:
        task = progress.add_task("comparisons", total=args.trials)
        for result in pool.map(run, range(args.trials)):
            trials.append(result)
            progress.advance(task)
            write("compare_alike", "python benchmarks/compare_alike.py", summaries(trials) | {"note": args.note, "raw": trials})
    for name, row in summaries(trials).items():
        print(name, json.dumps(row))


if __name__ == "__main__":
    main()

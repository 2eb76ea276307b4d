"""Side-by-side timing: runs of the contenders are interleaved in random order in one process, so noise hits all alike.

Results are ratios, saved with the raw samples and the facts of the machine under `benchmarks/results/`.
"""

import json
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from hotlap.core import machine, stats

SCHEMA = "hotlap.benchmark/1"
RESULTS = Path(__file__).with_name("results")
err = Console(stderr=True)


def pin_to_one_core() -> None:
    """Pin this process to one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def interleave(
    contenders: dict[str, Callable[[], int]], rounds: int = 15, seed: int = 0, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds per unit of work of each contender, per round. A contender returns how many units it did."""
    coin = random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender()  # warm-up
    for _ in track(range(rounds), description=" / ".join(contenders), console=err, transient=True):
        for name in coin.sample(list(contenders), len(contenders)):
            begin = clock()
            units = contenders[name]()
            samples[name].append((clock() - begin) / units)
    return samples


def speedup(samples: dict[str, list[float]], slow: str, fast: str) -> dict[str, Any]:
    """How many times faster `fast` is than `slow`: median of the paired ratios with its 95% interval."""
    ratio, low, high = stats.paired_ratio(samples[slow], samples[fast])
    rates = {name: 1 / stats.summarize(times).median for name, times in samples.items()}
    return {"slow": slow, "fast": fast, "speedup": ratio, "ci95": [low, high], "per_second": rates, "seconds": samples}


def provenance(command: str) -> dict[str, Any]:
    """By what command, when, and on which machine and commit something was measured."""
    return {"command": command, "created": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine.describe()}


def write(name: str, command: str, results: dict[str, Any]) -> Path:
    """The results of one command as a file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"schema": SCHEMA, **provenance(command), "results": results}, indent=1) + "\n")
    return path


def save(name: str, command: str, results: dict[str, Any]) -> bool:
    """Keep the speedups that one command measured and print them; whether all goals were met."""
    return show(results, write(name, command, results))


def keep(name: str, command: str, results: dict[str, Any], indent: int | None = 1) -> Path:
    """Add results to those of earlier commands, or replace them. Each has its own command, date and machine."""
    path = RESULTS / f"{name}.json"
    kept = json.loads(path.read_text())["results"] if path.exists() else {}
    kept |= {title: {**provenance(command), **result} for title, result in results.items()}
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps({"schema": SCHEMA, "results": kept}, indent=indent) + "\n")
    return path


def show(results: dict[str, Any], path: Path) -> bool:
    """Print speedups as a table; whether all goals were met, with the whole interval."""
    console = Console(soft_wrap=True)
    missed = 0
    for title, result in results.items():
        low, high = result["ci95"]
        goal, limit = result.get("goal"), result.get("at_most")
        verdict = "" if goal is None else f"   goal {goal}x: {'met' if low >= goal else 'NOT met'}"
        if limit is not None:
            met = "met" if high <= limit else "met by the median" if result["speedup"] <= limit else "NOT met"
            verdict = f"   at most {limit}x: {met}"
        missed += (goal is not None and low < goal) or (limit is not None and result["speedup"] > limit)
        digits = 1 if result["speedup"] >= 10 else 3
        ratio, interval = f"{result['speedup']:.{digits}f}x", f"{low:.{digits}f}-{high:.{digits}f}"
        console.print(f"{title:<44} {ratio:>9}  (95% {interval}){verdict}", highlight=False)
    console.print(f"saved in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")
    return not missed

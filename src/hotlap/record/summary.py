"""The numbers of a report, computed once from the record: the document that `--json` prints and `content.py` words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hotlap.core import stages, stats, units
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.sample import Sample
from hotlap.experiment import growth
from hotlap.record import counters
from hotlap.record.limits import Target
from hotlap.record.run import Run, strict_reading

SCHEMA = "hotlap.{verb}/1"
NANO = 1e-9
WHAT_IF = 5  # stages for which a faster one is projected
FEW = 5  # samples below which an interval means little
DRIFT = 0.05  # smallest change of level worth a warning


def document(run: Run) -> dict[str, Any]:
    """Everything that can be said about a run, as plain data."""
    with strict_reading(run.path):
        return _document(run)


def _document(run: Run) -> dict[str, Any]:
    header = run.header
    counters.fill_worker_steps(run)
    warmup, steady = run.steady()
    walls = [sample.wall * NANO for sample in steady]
    result: dict[str, Any] = {
        "schema": SCHEMA.format(verb=header["verb"]),
        **run.facts(),
        "env_only": header.get("env_only", False),
        "iterations": {"measured": len(steady), "warmup": warmup, "seconds": _spread(walls)},
        "stages": stage_table(steady, run.phase("traced")),
        "unattributed": None,
        "throughput": _throughput(steady),
        "counts": _totals(run),
        "counters": counters.counters(steady, run.phase("traced")),
        "workers": counters.workers(run, steady[0].start if steady else 0),
        "threads": header.get("threads", {}),
        "types": header.get("types", {}),
        "memory": _memory(run),
        "projection": _projection(walls),
        "what_if": None,
        "growth": growth.growth([line.sample for line in run.lines if line.phase not in ("bare", "traced")]),
        "hot_lines": header.get("hot_lines", []),
        "hot_functions": header.get("hot_functions", []),
        "own_lines": header.get("own_lines", []),
        "modules": header.get("modules", []),
        "functions": header.get("functions", []),
        "gpu_busy": (header.get("usage") or {}).get("gpu_busy"),
        "gpu_timing": header.get("gpu_timing"),
        "layout": header.get("layout"),
        "evaluation": header.get("evaluation"),
        "evaluation_seconds": header.get("evaluation_seconds"),
        "iteration_seconds": sum(line.sample.wall for line in run.lines) * NANO,
        "config": header["config"],
        "overhead": _overhead(run),
        "overhead_counted": _overhead_counted(run),
        "overhead_ab": _overhead_ab(run),
        "windows": _windows(run, warmup),
    }
    if steady:
        result["what_if"] = _what_if(result["stages"])
        result["unattributed"] = result["stages"][stages.UNATTRIBUTED]["share"]
    result["targets"] = [Target.parse(text).judge(result) for text in header.get("targets", [])]
    result["warnings"] = _warnings(run, result, walls)
    return result


def stage_table(samples: list[Sample], traced: list[Sample]) -> dict[str, dict[str, Any]]:
    """Exclusive time of every stage: seconds and share of the wall time, with the share's 95% interval.

    `total_seconds` and `total_share` include the stages inside. The shares, `unattributed` among them, sum to 1.
    `gpu_share` is the part of the traced iterations' time between a stage's events on the GPU's own timeline.
    """
    if not samples:
        return {}
    walls = np.array([sample.wall for sample in samples], float)
    paths = sorted({path for sample in samples for path in sample.own}, key=stages.order)
    table = {}
    for path in [*paths, stages.UNATTRIBUTED]:
        if path == stages.UNATTRIBUTED:
            own = total = np.array([_unattributed(sample) for sample in samples], float)
        else:
            own = np.array([sample.own.get(path, 0) for sample in samples], float)
            total = np.array([sample.total.get(path, 0) for sample in samples], float)
        table[path] = {
            "seconds": float(own.sum() * NANO),
            "share": float(own.sum() / walls.sum()),
            "ci95": list(stats.ratio_interval(own, walls)),
            "total_seconds": float(total.sum() * NANO),
            "total_share": float(total.sum() / walls.sum()),
            "total_ci95": list(stats.ratio_interval(total, walls)),
            "calls": sum(sample.calls.get(path, 0) for sample in samples),
        }
        if any(path in sample.gpu for sample in traced):
            parts, wholes = [sample.gpu.get(path, 0) for sample in traced], [sample.wall for sample in traced]
            table[path]["gpu_share"] = sum(parts) / sum(wholes)
            table[path]["gpu_ci95"] = list(stats.ratio_interval(parts, wholes))
    return table


def _what_if(table: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What a faster stage would give, by Amdahl's law on exclusive shares; if stages overlap, this is too much."""
    largest = sorted((path for path in table if path != stages.UNATTRIBUTED), key=lambda path: -table[path]["share"])[:WHAT_IF]
    found = []
    for path in largest:
        share, (low, high) = table[path]["share"], table[path]["ci95"]
        row: dict[str, Any] = {"stage": path, "share": share}
        for name, times in (("2", 2.0), ("10", 10.0), ("gone", float("inf"))):
            limits = [min(stats.amdahl(s, times), 1e9) for s in (share, low, high)]
            row[name] = {"speedup": limits[0], "ci95": limits[1:]}
        found.append(row)
    return found


def _unattributed(sample: Sample) -> int:
    return sample.wall - sum(total for path, total in sample.total.items() if stages.parent(path) is None)


def _spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {}
    summary = stats.summarize(values)
    return {**vars(summary), "ci95": list(stats.bootstrap_interval(values, np.median))}


def _throughput(samples: list[Sample]) -> dict[str, Any]:
    """Median rate over windows, with the interval of the median."""
    result: dict[str, Any] = {"ci95": {}}
    for what in (ENV_STEPS, UPDATES, EPISODES):
        if samples:
            rates = [sample.counts.get(what, 0) / (sample.wall * NANO) for sample in samples]
            result[f"{what}_per_s"] = float(np.median(rates))
            result["ci95"][f"{what}_per_s"] = list(stats.bootstrap_interval(rates, np.median))
    return result


def _totals(run: Run) -> dict[str, float]:
    """What was counted over the whole run, warm-up included."""
    samples = [line.sample for line in run.lines]
    return {what: sum(sample.counts.get(what, 0) for sample in samples) for what in (ENV_STEPS, UPDATES, EPISODES)}


def _memory(run: Run) -> dict[str, Any]:
    seen = [line.rss for line in run.lines]
    steady = [line.rss for line in run.lines if line.phase in ("measured", "train")] or seen
    usage = run.header.get("usage") or {}
    return {
        "peak_bytes": max([*seen, usage.get("peak_rss") or 0], default=0),
        "first_bytes": steady[0] if steady else 0,
        "last_bytes": steady[-1] if steady else 0,
        "gpu_peak_bytes": max((line.gpu_memory for line in run.lines), default=0),
    }


def _projection(walls: Sequence[float]) -> dict[str, Any]:
    """How long 100 and 1,000 iterations would take at the mean of those measured."""
    if not walls:
        return {}
    low, high = stats.bootstrap_interval(walls)
    mean = float(np.mean(walls))
    return {str(n): {"seconds": n * mean, "ci95": [n * low, n * high]} for n in (100, 1000)}


def _overhead(run: Run) -> float | None:
    """What measuring cost, as a share of the time: the counted cost, moved into the interval that bare iterations allow."""
    counted, ab = _overhead_counted(run), _overhead_ab(run)
    if counted is None or ab is None:
        return counted
    low, high = (limit - 1 for limit in ab["ci95"])
    return float(max(0.0, min(max(counted, low), high)))


def _overhead_counted(run: Run) -> float | None:
    """Stages entered times the cost of one, and the sampler's own time, as a share of the measured time."""
    samples = run.phase("measured", "train")
    wall = sum(sample.wall for sample in samples) * NANO
    if not wall or "stage_cost" not in run.header:
        return None
    entered = sum(sum(sample.calls.values()) for sample in samples)
    return float((entered * run.header["stage_cost"] + run.header.get("sampler_seconds", 0.0)) / wall)


def _overhead_ab(run: Run) -> dict[str, Any] | None:
    """Measured iterations against bare ones that ran between them: the ratio of their times, per env step where counted."""
    measured, bare = run.phase("measured"), run.phase("bare")
    pairs = min(len(measured), len(bare))
    if pairs < FEW:
        return None
    counted = all(sample.counts.get(ENV_STEPS) for sample in [*measured, *bare])
    first, second = ([s.wall / (s.counts[ENV_STEPS] if counted else 1) for s in found[:pairs]] for found in (measured, bare))
    ratio, low, high = stats.paired_ratio(first, second)
    return {"ratio": ratio, "ci95": [low, high], "pairs": pairs}


def _windows(run: Run, warmup: int) -> dict[str, Any]:
    """The series behind the plots: one entry per recorded iteration, bare ones left out; the first ones are warm-up."""
    samples = run.phase("warmup", "measured", "traced", "train")
    paths = sorted({path for sample in samples for path in sample.own}, key=stages.order)
    rates = {
        f"{what}_per_s": [sample.counts.get(what, 0) / (sample.wall * NANO) for sample in samples]
        for what in (ENV_STEPS, UPDATES, EPISODES)
    }
    shares = {path: [sample.own.get(path, 0) / sample.wall for sample in samples] for path in paths}
    shares[stages.UNATTRIBUTED] = [_unattributed(sample) / sample.wall for sample in samples]
    phases = [
        "warmup" if i < warmup else line.phase for i, line in enumerate(line for line in run.lines if line.phase != "bare")
    ]
    return {
        "time": [sample.start * NANO for sample in samples],
        "phase": phases,
        **rates,
        "shares": shares,
        "counts": counters.over_time(samples),
        "rss": [line.rss for line in run.lines if line.phase != "bare"],
    }


def _warnings(run: Run, result: dict[str, Any], walls: Sequence[float]) -> list[str]:
    found = list(run.header.get("notes", []))
    if result["status"] == "killed":
        found.append("The process was killed: this report covers what it had recorded.")
    if result["status"] == "interrupted":
        found.append("The run was interrupted: this report covers what it had recorded.")
    if result["status"] == "failed":
        found.append(f"The run failed: {result['error']}")
    if "script" in run.header["config"] and not result["counts"][ENV_STEPS] and not result["counts"][UPDATES]:
        found.append("No environment step and no update was seen: hotlap found no RL in this script.")
    elif "script" in run.header["config"] and not result["counts"][ENV_STEPS]:
        found.append(
            "No environment was seen to step, so the time of collecting counts as loss. hotlap knows the environments of "
            "frameworks, and classes whose step(action) returns observation, reward, done."
        )
    if not walls:
        found.append("No iteration was completed after warm-up, so there is nothing to show.")
    elif len(walls) < FEW:
        found.append(f"Iterations measured: {len(walls)}, too few samples for the intervals to mean much.")
    if len(walls) > FEW and (step := stats.change_point(walls)) is not None:
        ratio = np.median(walls[step:]) / np.median(walls[:step])
        if abs(ratio - 1) > DRIFT:
            found.append(f"Drift: from measured iteration {step + 1} on, one takes {ratio:.2f}x as long as before.")
    cores, load = result["machine"].get("usable_cores", 1), result["machine"].get("load", [0])[0]
    if load > cores:
        found.append(f"The machine was busy before the run: load {load:g} on {cores:g} usable cores.")
    if (result["unattributed"] or 0) > 0.05:
        found.append(f"{units.share(result['unattributed'])} of the time belongs to no stage.")
    if (result["overhead"] or 0) > 0.02:
        found.append(f"Measuring cost {units.share(result['overhead'])} of the time.")
    return found

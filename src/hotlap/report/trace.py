"""A run for other tools: a Chrome/Perfetto trace, a speedscope profile of the sampled stacks, TensorBoard scalars."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.record.run import KERNELS, STACKS, Run, strict_reading

MICRO = 1e-3  # nanoseconds to microseconds
MOST_WORKERS = 64  # with at most 25,000 spans each from the script and 2,000 from a worker, a trace stays below 20 MB
MOST_WORKER_SPANS = 2_000


def render(run: Run) -> dict[str, Any]:
    """Every iteration with its counters, every span of the traced ones, and what workers and the GPU did at that time."""
    events = [*_named(1, f"hotlap {run.header['verb']} {run.header['target']}", "training")]
    for line in run.lines:
        if line.phase == "bare":
            continue
        sample = line.sample
        start, wall = sample.start * MICRO, sample.wall * MICRO
        events.append(_span(1, "iteration", start, wall, {"phase": line.phase, **_main_counts(sample)}))
        rates = {f"{ENV_STEPS} per second": sample.counts.get(ENV_STEPS, 0) / (wall * 1e-6), "rss": line.rss}
        for name, value in rates.items():
            events.append({"ph": "C", "pid": 1, "name": name, "ts": start, "args": {"value": value}})
        events += _stages(1, sample)
    for number, (name, lines) in enumerate(list(run.workers.items())[:MOST_WORKERS], 2):
        spans = [event for line in lines for event in _stages(number, line.sample)]
        events += [*_named(number, f"worker {name}", "worker"), *spans[:MOST_WORKER_SPANS]]
    if kernels := _read(run.path / KERNELS):
        events += _named(0, "GPU", "kernels")
        events += [_span(0, name, start * MICRO, length * MICRO, {}) for name, start, length in kernels]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": run.header["id"]}}


def speedscope(run: Run) -> dict[str, Any]:
    """The sampled stacks in speedscope's format: each stage is the root of the stacks seen in it."""
    with strict_reading(run.path):
        found = _read(run.path / STACKS)
        if not found:
            raise RecordError(f"{run.path} has no sampled stacks; profile a script without --no-lines")
        frames, stacks = list(found["frames"]), found["stacks"]
        roots: dict[str, int] = {}
        for stage, *_ in stacks:
            if stage not in roots:
                roots[stage] = len(frames)
                frames.append({"name": stage or "no stage"})
        samples = [[roots[stage], *stack] for stage, stack, *_ in stacks]
        weights = [seconds for _, _, seconds, *_ in stacks]
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"hotlap {run.header['target']}",
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": run.header["target"],
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }


def tensorboard(run: Run, folder: Path) -> Path:
    """Rates, memory and the share of each stage, window by window, as TensorBoard scalars."""
    from torch.utils.tensorboard import SummaryWriter

    created = datetime.fromisoformat(run.header["created"]).timestamp()
    with SummaryWriter(str(folder)) as writer:
        for number, line in enumerate(line for line in run.lines if line.phase != "bare"):
            sample = line.sample
            scalars = {
                f"rate/{what}_per_s": sample.counts.get(what, 0) / (sample.wall * 1e-9)
                for what in (ENV_STEPS, UPDATES, EPISODES)
            }
            scalars |= {f"share/{path}": amount / sample.wall for path, amount in sample.total.items()}
            scalars["memory/rss"] = line.rss
            for name, value in scalars.items():
                writer.add_scalar(name, value, number, walltime=created + sample.start * 1e-9)
    return folder


def _main_counts(sample: Sample) -> dict[str, float]:
    return {what: sample.counts[what] for what in (ENV_STEPS, UPDATES, EPISODES) if what in sample.counts}


def _stages(process: int, sample: Sample) -> list[dict[str, Any]]:
    return [
        _span(process, path.rpartition("/")[2], start * MICRO, length * MICRO, {"path": path})
        for path, start, length in sample.events
    ]


def _named(process: int, name: str, thread: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}},
        {"ph": "M", "pid": process, "tid": 1, "name": "thread_name", "args": {"name": thread}},
    ]


def _span(process: int, name: str, start: float, duration: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": process,
        "tid": 1,
        "name": name,
        "cat": "stage",
        "ts": start,
        "dur": duration,
        "args": arguments,
    }


def _read(path: Path) -> Any:
    """A JSON file of the run; None if it has none."""
    try:
        return json.loads(path.read_text()) if path.exists() else None
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} is damaged: {error}") from error

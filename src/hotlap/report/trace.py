"""A run as a Chrome trace, for Perfetto: every iteration with its counters, every span of the traced ones, workers, the GPU."""

import json
from collections.abc import Iterator
from typing import Any

from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import UsageError
from hotlap.core.sample import Sample
from hotlap.record import codec
from hotlap.record.files import KERNELS
from hotlap.record.header import Verb
from hotlap.record.lines import Recorded
from hotlap.record.run import Run
from hotlap.report.sections import Report

MICRO, NANO = 1e-3, 1e-9  # nanoseconds to microseconds, to seconds
MOST_WORKERS = 64  # with no more than 25,000 spans each from the script and 2,000 from a worker, a trace stays below 20 MB
MOST_WORKER_SPANS = 2_000
GPU, SCRIPT = 0, 1  # process numbers in the trace; workers follow

Event = dict[str, Any]  # and the whole trace: JSON as Chrome defines it
Kernel = tuple[str, int, int]  # name, start, duration in nanoseconds


def profiled(report: Report, name: str) -> Run:
    """The run of a report, for formats that show samples rather than sections."""
    if report.run is None or report.run.header.verb not in (Verb.PROFILE, Verb.TRAIN):
        kind = f"a record of {report.run.header.verb}" if report.run else "no run"
        raise UsageError(f"--format {name}: only for profiles and training runs; this is {kind}")
    return report.run


def as_trace(report: Report) -> str:
    return json.dumps(trace_of(profiled(report, "trace")))


def trace_of(run: Run) -> Event:
    events = [*_named(SCRIPT, f"hotlap {run.header.verb} {run.header.target}", "training")]
    for line in run.without_bare():
        events += _iteration(line)
    for number, (name, lines) in enumerate(list(run.workers.items())[:MOST_WORKERS], SCRIPT + 1):
        spans = [event for line in lines for event in _stages(number, line.sample)]
        events += [*_named(number, f"worker {name}", "worker"), *spans[:MOST_WORKER_SPANS]]
    if (path := run.path / KERNELS).exists():
        kernels = codec.from_json(tuple[Kernel, ...], codec.read(path), path)
        events += [*_named(GPU, "GPU", "kernels"), *(_span(GPU, name, start, length) for name, start, length in kernels)]
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": run.header.id}}


def _iteration(line: Recorded) -> Iterator[Event]:
    sample = line.sample
    counts = {what: sample.counts[what] for what in (ENV_STEPS, UPDATES, EPISODES) if what in sample.counts}
    yield _span(SCRIPT, "iteration", sample.start, sample.wall, phase=line.phase, **counts)
    rates = {f"{ENV_STEPS} per second": sample.counts.get(ENV_STEPS, 0) / (sample.wall * NANO), "rss": line.rss}
    for name, value in rates.items():
        yield {"ph": "C", "pid": SCRIPT, "name": name, "ts": sample.start * MICRO, "args": {"value": value}}
    yield from _stages(SCRIPT, sample)


def _stages(process: int, sample: Sample) -> Iterator[Event]:
    for path, start, length in sample.events:
        yield _span(process, path.rpartition("/")[2], start, length, path=path)


def _named(process: int, name: str, thread: str) -> list[Event]:
    return [
        {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}},
        {"ph": "M", "pid": process, "tid": 1, "name": "thread_name", "args": {"name": thread}},
    ]


def _span(process: int, name: str, start: int, duration: int, **arguments: Any) -> Event:
    """A span, from nanoseconds. One that began before the trace is cut; viewers refuse negative times."""
    end = max(start + duration, 0)
    start = max(start, 0)
    times = {"ts": start * MICRO, "dur": max(end - start, 0) * MICRO}
    return {"ph": "X", "pid": process, "tid": 1, "name": name, "cat": "stage", **times, "args": arguments}

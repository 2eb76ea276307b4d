"""A run as a Chrome/Perfetto trace: every iteration, its counters, and every span of the iterations that were traced."""

from typing import Any

from hotlap.clock import ENV_STEPS
from hotlap.record import Run

MICRO = 1e-3  # nanoseconds to microseconds


def render(run: Run) -> dict[str, Any]:
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "pid": 1,
            "name": "process_name",
            "args": {"name": f"hotlap {run.header['verb']} {run.header['target']}"},
        },
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "training"}},
    ]
    for line in run.lines:
        if line.phase == "bare":
            continue
        sample = line.sample
        start, wall = sample.start * MICRO, sample.wall * MICRO
        arguments = {"phase": line.phase, **sample.counts}
        events.append(_span("iteration", start, wall, arguments))
        for name, value in (
            (ENV_STEPS + " per second", sample.counts.get(ENV_STEPS, 0) / (wall * 1e-6)),
            ("rss", line.rss),
        ):
            events.append({"ph": "C", "pid": 1, "name": name, "ts": start, "args": {"value": value}})
        for path, begin, duration in sample.events:
            events.append(_span(path.rpartition("/")[2], begin * MICRO, duration * MICRO, {"path": path}))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": run.header["id"]}}


def _span(name: str, start: float, duration: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "name": name,
        "cat": "stage",
        "ts": start,
        "dur": duration,
        "args": arguments,
    }

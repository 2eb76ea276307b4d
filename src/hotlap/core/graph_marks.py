"""Where the time of a CUDA graph goes: events that the graph itself records at every replay, at the stages inside it.

A graph of a whole rollout holds each stage many times; only some of them are marked, or events would take a tenth of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MARKED = 2  # occurrences of a stage, evenly spread


@dataclass
class GraphMarks:
    """The marks of one graph. `every`: how far apart the occurrences of an inner stage are of which one is marked."""

    new_event: Callable[[], Any]
    path: str  # of the stage in which the graph is captured
    every: int = 1
    marks: list[tuple[str, Any, Any]] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    empty: tuple[Any, Any] | None = None  # two events with nothing between them: what marking adds

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        before = self.path
        self.path = path = f"{before}/{name}" if before else name
        number = self.calls[path] = self.calls.get(path, 0) + 1
        marked = (number - 1) % self.every == 0
        start = self.event() if marked else None
        try:
            yield
        finally:
            self.path = before
            if marked:
                self.marks.append((path, start, self.event()))

    def event(self) -> Any:
        event = self.new_event()
        event.record()
        return event

    def read(self, replays: int) -> dict[str, float]:
        """Nanoseconds by path, of so many replays of which the last marked one was measured and is over."""
        cost = self.empty[0].elapsed_time(self.empty[1]) if self.empty else 0.0
        sums: dict[str, tuple[float, int]] = {}
        for path, start, end in self.marks:
            total, count = sums.get(path, (0.0, 0))
            sums[path] = total + max(0.0, start.elapsed_time(end) - cost), count + 1
        return {path: 1e6 * total / count * self.calls[path] * replays for path, (total, count) in sums.items()}


def exclusive_times(inclusive: dict[str, int]) -> dict[str, int]:
    """Of a tree of stages on a device's timeline: each without its children, which never exceed it. What is inside a graph is
    measured on some of its stages, so children are brought down to what their parent took."""
    exclusive: dict[str, int] = {}
    scale: dict[str, float] = {}
    for path in sorted(inclusive, key=lambda path: path.count("/")):
        within = scale.get(path.rpartition("/")[0], 1.0)
        own = inclusive[path] = round(inclusive[path] * within)
        inside = sum(t for other, t in inclusive.items() if other.rpartition("/")[0] == path) * within
        scale[path] = within * min(1.0, own / inside) if inside else within
        exclusive[path] = max(0, own - round(inside * min(1.0, own / inside) if inside else 0))
    return exclusive

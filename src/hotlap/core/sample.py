"""A sample: what one iteration of training, or one window of a script, took and did."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_EVENTS = 25_000  # spans kept per traced iteration


@dataclass
class Sample:
    """One iteration. Times are nanoseconds; `start` counts from the clock's creation."""

    start: int
    wall: int = 0
    exclusive: dict[str, int] = field(default_factory=dict)  # path -> time inside, children excluded
    inclusive: dict[str, int] = field(default_factory=dict)  # path -> time inside, children included
    calls: dict[str, int] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    gpu: dict[str, int] = field(default_factory=dict)  # path -> time between its events on the GPU's timeline
    threads: dict[str, dict[str, int]] = field(default_factory=dict)  # other thread -> path -> exclusive time
    events: list[tuple[str, int, int]] = field(default_factory=list)  # (path, start, duration), when traced

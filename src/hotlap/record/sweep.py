"""What sweeps say: throughput against a knob, time against the work done, and what the whole notices of a delay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotlap.core.words import Word
from hotlap.record.blocks import Plan, VariantRecord
from hotlap.record.codec import FLAT, was
from hotlap.record.comparison import Interval, Work
from hotlap.record.profile import Growth, GrowthRow
from hotlap.record.run import Identity

# -- a knob --


class Reading(Word):
    """What happens between two values of a knob."""

    LATENCY_BOUND = "latency-bound"
    PARTLY_LATENCY_BOUND = "partly latency-bound"
    WORK_BOUND = "work-bound"
    CONTENDED = "contended"
    NO_EFFECT = "no effect"
    LEARNS_DIFFERENTLY = "learns differently"  # it changes how much is learned from a step


@dataclass(frozen=True)
class SweepPoint:
    name: str
    values: dict[str, str] = field(default_factory=dict)  # of the knobs
    throughput: float | None = None  # None: not measured
    ci95: Interval | None = None
    rounds: int = 0
    memory: float | None = None
    stages: dict[str, float] = field(default_factory=dict)  # seconds per unit of work
    seconds_per_iteration: float | None = None
    per_iteration: dict[str, float] = field(default_factory=dict)  # steps, updates and episodes
    work: Work = field(default_factory=Work)


@dataclass(frozen=True)
class Segment:
    """From one value of the knob to the next: throughput ~ knob^slope."""

    low: float = field(metadata=was("from"))
    high: float = field(metadata=was("to"))
    slope: float
    reading: Reading
    updates_per_env_step: tuple[float, float] | None = None  # at both ends, if they differ
    collecting: Reading | None = None  # then collecting is read alone
    collecting_slope: float | None = None


@dataclass(frozen=True)
class Knee:
    """The smallest value that gives nearly the best throughput."""

    value: float
    throughput: float
    of_best: float


@dataclass(frozen=True)
class Scaling:
    """How throughput follows a numeric knob, and where more stops paying."""

    knob: str
    segments: tuple[Segment, ...]
    knee: Knee


@dataclass(frozen=True)
class SweepReport:
    schema: str
    identity: Identity = field(metadata=FLAT)
    unit: str
    knobs: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    best: str | None = None
    scaling: Scaling | None = None
    growth: tuple[GrowthRow, ...] = ()  # an iteration's time against the work in it
    plan: Plan | None = None
    variants: tuple[VariantRecord, ...] = ()
    scratch: str | None = None
    containment: str | None = None
    warnings: tuple[str, ...] = ()


# -- delays --


@dataclass(frozen=True)
class DelayPoint:
    """Seconds per unit of work."""

    name: str
    injected: float
    cost: float
    noticed: float | None = None


@dataclass(frozen=True)
class DelayProjection:
    """What a stage that is `times` faster (None: gone) would give to the whole. None for a gain: no limit."""

    times: float | None
    by_share: float | None
    by_delay: float | None = None
    ci95: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class DelayReport:
    schema: str
    identity: Identity = field(metadata=FLAT)
    unit: str
    delay: str  # the stage
    knobs: tuple[str, ...]
    delayed: tuple[DelayPoint, ...]
    slope: float | None = None  # of what is noticed against what was injected
    slope_ci95: Interval | None = None
    in_workers: bool = False
    share: float | None = None  # of the stage, of the time
    projections: tuple[DelayProjection, ...] = ()
    plan: Plan | None = None
    scratch: str | None = None
    containment: str | None = None
    warnings: tuple[str, ...] = ()


# -- growth --


@dataclass(frozen=True)
class Reached:
    """When a count was reached, and what a straight line from the first of them would have said, in seconds."""

    count: float
    seconds: float
    env_steps: float
    updates: float
    episodes: float
    expected_seconds: float
    expected_by_steps: float | None = None
    expected_by_updates: float | None = None


@dataclass(frozen=True)
class GrowthCurve:
    """Time and work against the count, each relative to its end."""

    x: tuple[float, ...] = ()
    series: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class GrowthReport:
    schema: str
    identity: Identity = field(metadata=FLAT)
    until: str  # what is counted
    reached: tuple[Reached, ...]
    growth: Growth | None
    curve: GrowthCurve
    config: dict[str, Any]
    warnings: tuple[str, ...] = ()

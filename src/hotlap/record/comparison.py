"""What a comparison says: verdicts, ratios with their intervals, and the rows that explain them.

A ratio is the cost of A over the cost of B, so above 1 B needs less: less time, less memory. Intervals are 95% intervals.
`codec.to_json` of a report is the document that `--json` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hotlap.core.words import Word
from hotlap.record.blocks import Plan, VariantRecord
from hotlap.record.codec import FLAT
from hotlap.record.networks import NetComparison
from hotlap.record.run import Identity

Interval = tuple[float, float]


class Verdict(Word):
    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no measurable difference"
    TOO_FEW = "too few samples"
    SMALLER = "smaller"  # of memory
    LARGER = "larger"

    @property
    def is_difference(self) -> bool:
        return self not in (Verdict.SAME, Verdict.TOO_FEW)


class RowKind(Word):
    WHOLE = "whole"
    MEMORY = "memory"
    STAGE = "stage"


@dataclass(frozen=True)
class Outcome:
    """A ratio and what may be said about it. No ratio: there was nothing to compare."""

    verdict: Verdict
    ratio: float | None
    ci95: Interval | None
    smallest_effect: float | None  # an effect of this size would have been found four times out of five


@dataclass(frozen=True)
class Contribution:
    """What a stage adds to (above 0) or takes from A's whole time, as a share of it."""

    value: float | None
    ci95: Interval | None = None


@dataclass(frozen=True)
class Row(Outcome):
    kind: RowKind
    name: str
    a: float | None
    b: float | None
    unit: str  # seconds or bytes
    only: str | None = None  # "A" or "B", if the other does not have this stage
    contribution: Contribution | None = None
    share_of_change: float | None = None  # of the whole's


@dataclass(frozen=True)
class Work:
    """How much was done: by what costs are counted by, per second; and how much was learned per step."""

    per_second: float | None = None
    updates_per_env_step: float | None = None
    env_steps_per_episode: float | None = None


@dataclass(frozen=True)
class WorkPair:
    a: Work = field(default_factory=Work)
    b: Work = field(default_factory=Work)


@dataclass(frozen=True)
class Comparison(Outcome):
    """One variant, B, against the first, A."""

    a: str
    b: str
    rounds: int
    pairs: int
    rows: tuple[Row, ...]
    change: float | None = None  # of A's time per unit of work
    projected: float | None = None  # the ratio by Amdahl's law, from A's shares and the stages' own ratios
    ratio_of_totals: float | None = None  # all the time over all the work: what rare and long work does to it
    work: WorkPair = field(default_factory=WorkPair)
    ratios: tuple[tuple[float, ...], ...] = ()  # of pairs of blocks, by rounds


@dataclass(frozen=True)
class ComparisonReport(Outcome):
    """Each variant against the first. What stands at the top is the first comparison's."""

    schema: str
    identity: Identity = field(metadata=FLAT)
    unit: str  # what costs are counted by
    baseline: str
    rows: tuple[Row, ...]
    comparisons: tuple[Comparison, ...]
    control: Outcome | None = None  # the baseline against itself
    plan: Plan | None = None  # None: saved runs were compared
    variants: tuple[VariantRecord, ...] = ()
    nets: NetComparison | None = None
    scratch: str | None = None
    containment: str | None = None
    warnings: tuple[str, ...] = ()


class GateVerdict(Word):
    PASS = "pass"
    FAIL = "FAIL"
    UNSURE = "cannot tell"


@dataclass(frozen=True)
class GateResult:
    """The interval of the slowdown against the limit."""

    gate: GateVerdict
    slowdown: float | None
    slowdown_ci95: Interval | None
    max_slowdown: float


@dataclass(frozen=True)
class GateReport:
    comparison: ComparisonReport = field(metadata=FLAT)
    result: GateResult = field(metadata=FLAT)

    @property
    def verdict(self) -> GateVerdict:
        return self.result.gate

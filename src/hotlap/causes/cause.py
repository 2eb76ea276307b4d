"""A cause of slow training: one entry with its words, the rule that suspects it, and the experiments that test it.

    SLOW_DISK = Cause(id="slow-disk", title="...", fix="...", rule=slow_disk, confirm="...", remedies=without_disk)

A rule is a small function `(Evidence) -> Suspicion | None`; its docstring says which signs it looks for. Entries lie in
one file per family; other packages add theirs by the entry point group `hotlap.causes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotlap.record.finding import Finding, Projection

if TYPE_CHECKING:
    from hotlap.causes.evidence import Evidence
    from hotlap.causes.remedy import Context
    from hotlap.causes.stacks import StackSample
    from hotlap.interventions.intervention import Intervention


# What was measured of a projected gain, on planted scripts.
LEAST_OF_GAIN, MOST_OF_GAIN = 0.83, 1.41


@dataclass(frozen=True)
class Saved:
    """The share of the time that would go away: an estimate and how far it may be off."""

    value: float
    low: float
    high: float

    def narrowed(self) -> Saved:
        """With ends no farther from the estimate than measured gains were from projections of this kind, nine times of ten."""
        left = 1 - self.value
        return Saved(self.value, max(self.low, 1 - left / LEAST_OF_GAIN), min(self.high, 1 - left / MOST_OF_GAIN))

    def projection(self) -> Projection:
        """How many times faster the whole gets, by Amdahl's law."""
        speedup, low, high = (1 / (1 - min(max(share, 0.0), 0.98)) for share in (self.value, self.low, self.high))
        return Projection(speedup, (low, high))


NOTHING = Saved(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Suspicion:
    """What a rule says when it sees the signs of its cause."""

    stage: str
    evidence: tuple[str, ...]  # sentences with numbers
    saved: Saved = NOTHING
    where: str | None = None  # file:line of the user's code, where code is to blame
    parameters: dict[str, float] = field(default_factory=dict)  # what an experiment needs to know
    outweighs_all: bool = False  # what the cause explains is merged into it, however much that would save
    covers: Callable[[StackSample], bool] | None = None  # which stack samples it explains, where it is about some
    fix: str | None = None  # what to do in this case, where that is not what the cause says


Rule = Callable[["Evidence"], Suspicion | None]
Remedies = Callable[["Context", Finding], "list[Intervention]"]


@dataclass(frozen=True)
class Cause:
    id: str
    title: str  # the reason, in a clause: "because ..."
    fix: str
    rule: Rule
    confirm: str | None = None  # the experiment that would confirm it; None: advice only
    remedies: Remedies | None = None  # interventions for a finding, the best first; fixes before upper bounds
    sources: tuple[str, ...] = ()  # threads in which users reported it; S0 to S4 are the five guides
    changes_learning: bool = False  # whether the fix can change what is learned
    explains: tuple[str, ...] = ()  # causes whose signs this one brings along: they are merged into it
    no_fault: bool = False  # it explains a change of speed; there is nothing to fix

    def __post_init__(self) -> None:
        if (self.confirm is None) != (self.remedies is None):
            raise ValueError(f"cause {self.id}: an experiment needs both, `confirm` and `remedies`")

    def finding(self, suspicion: Suspicion) -> Finding:
        """The suspicion, worded so that a report needs nothing else."""
        return Finding(
            cause=self.id,
            title=self.title,
            stage=suspicion.stage,
            evidence=suspicion.evidence,
            projected=suspicion.saved.projection(),
            changes_learning=self.changes_learning,
            fix=suspicion.fix or self.fix,
            confirm=self.confirm,
            where=suspicion.where,
            sources=self.sources,
            parameters=suspicion.parameters,
            no_fault=self.no_fault,
        )

"""A hypothesis: a suspected cause, the intervention that tests it, and what the experiment said."""

from __future__ import annotations

from dataclasses import dataclass

from hotlap.core.words import Word
from hotlap.record.finding import Finding, Projection
from hotlap.record.intervention import Intervention


class Verdict(Word):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"
    NO_FAULT = "no fault"  # it explains a change of speed; there is nothing to fix


class Reason(Word):
    """Why a hypothesis was not confirmed or refuted."""

    BUDGET_SPENT = "budget-spent"
    SETTLED = "settled"  # another experiment for this cause had succeeded
    NO_EXPERIMENT = "no-experiment"
    TOO_FEW_SAMPLES = "too-few-samples"
    UNCLEAR = "unclear"  # the interval holds both a gain and none
    NOT_APPLIED = "not-applied"  # the script never used what was changed
    INVALID = "invalid"  # the changed target did not do what the intervention says; `detail` says what it did
    OVERLAP = "overlap"  # it edits a line that was changed already
    FAILED = "failed"  # a variant failed; `detail` says how


MORE_TIME = (Reason.BUDGET_SPENT, Reason.TOO_FEW_SAMPLES, Reason.UNCLEAR)  # would settle these


@dataclass(frozen=True)
class Replay:
    """Recorded calls of a function, replayed against its rewrite in the same process."""

    function: str = ""  # "f" or "Class.f"
    calls: int = 0
    before: float | None = None  # seconds for all of them
    after: float | None = None
    same: bool | None = None  # whether results and changed arguments are the same
    problem: str | None = None  # why there are no numbers


@dataclass(frozen=True)
class Hypothesis:
    id: int
    cause: str
    profile: int  # the number of the profile that it comes from
    finding: Finding | None = None  # none for a knob that the user named
    projected: Projection | None = None  # with what was accepted before its experiment
    intervention: Intervention | None = None
    verdict: Verdict | None = None  # None: planned
    reason: Reason | None = None
    detail: str | None = None
    measured: float | None = None  # ratio of costs, above 1: faster
    ci95: tuple[float, float] | None = None
    accepted: bool = False
    experiment: str | None = None  # folder of the comparison, below the investigation's
    replay: Replay | None = None  # what its rewrite gains on recorded calls, measured before the experiment
    alone: bool = False  # tested against the target as it was given, without what was accepted before

    @property
    def is_knob(self) -> bool:
        """Whether the user or a system's document asked for it, rather than a rule."""
        return self.finding is None

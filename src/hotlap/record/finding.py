"""What a rule says when its cause is there."""

from dataclasses import dataclass, field, replace
from typing import Any

from hotlap.causes.catalogue import CAUSES


@dataclass(frozen=True)
class Saved:
    """The share of the time that would go away: an estimate and how far it may be off."""

    value: float
    low: float
    high: float

    def speedup(self) -> tuple[float, float, float]:
        """How many times faster the whole gets: the estimate, and its limits."""
        return tuple(1 / (1 - min(max(part, 0.0), 0.98)) for part in (self.value, self.low, self.high))  # type: ignore[return-value]


NOTHING = Saved(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Finding:
    cause: str
    stage: str
    evidence: tuple[str, ...]  # sentences with numbers
    saved: Saved = NOTHING
    where: str | None = None  # file:line of the user's code, where code is to blame
    merged: tuple[str, ...] = ()  # causes that this one explains
    numbers: dict[str, Any] = field(default_factory=dict)  # what an experiment needs to know

    def explain(self, other: "Finding") -> "Finding":
        """This one with another merged into it."""
        return replace(self, merged=(*self.merged, other.cause, *other.merged))

    def document(self) -> dict[str, Any]:
        cause, (gain, low, high) = CAUSES[self.cause], self.saved.speedup()
        return {
            "cause": self.cause,
            "title": cause.title,
            "stage": self.stage,
            "evidence": list(self.evidence),
            "where": self.where,
            "projected": {"speedup": gain, "ci95": [low, high]},
            "changes_learning": cause.learning,
            "fix": cause.fix,
            "confirm": cause.confirm,
            "merged": list(self.merged),
            "sources": list(cause.sources),
        }

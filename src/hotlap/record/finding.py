"""A finding: a cause of slow training with the evidence for it, worded so that a report needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

NARROWEST = 0.01  # no projection is surer than this, to either side


@dataclass(frozen=True)
class Projection:
    """How many times faster the whole would get: projected from shares of the time, not measured."""

    speedup: float
    ci95: tuple[float, float]

    def __post_init__(self) -> None:
        """An estimate lies inside its interval, whatever rule made it and whatever record it was read from."""
        if self.speedup == self.ci95[0] == self.ci95[1] == 1:  # nothing to gain, for sure
            return
        low, high = sorted(self.ci95)
        least, most = self.speedup * (1 - NARROWEST), self.speedup * (1 + NARROWEST)
        if self.speedup > 1:
            least = max(least, 1.0)
        object.__setattr__(self, "ci95", (min(low, least), max(high, most)))


@dataclass(frozen=True)
class Finding:
    cause: str  # its id in the catalogue
    title: str  # the reason, in a clause: "because ..."
    stage: str
    evidence: tuple[str, ...]  # sentences with numbers
    projected: Projection
    changes_learning: bool  # whether the fix can change what is learned
    fix: str
    confirm: str | None = None  # the experiment that would confirm it; None: advice only
    where: str | None = None  # file:line of the user's code, where code is to blame
    merged: tuple[str, ...] = ()  # causes that this one explains
    sources: tuple[str, ...] = ()  # threads in which users reported it
    parameters: dict[str, float] = field(default_factory=dict)  # what an experiment needs to know: minibatch, num_envs, ...
    no_fault: bool = False  # it explains a change of speed; there is nothing to fix

    def explain(self, other: Finding) -> Finding:
        """This one with another merged into it."""
        return replace(self, merged=(*self.merged, other.cause, *other.merged))

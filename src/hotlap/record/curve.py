"""A learning curve: the episodes of one run, and its first losses."""

from __future__ import annotations

from dataclasses import dataclass

LATE = 0.25  # of the steps: their episodes are the score
EARLY = 0.1


@dataclass(frozen=True)
class Curve:
    """After how many environment steps and seconds episodes ended, and their returns; and the first losses."""

    steps: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    returns: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    def late_returns(self, until: float) -> list[float]:
        """Returns of episodes that ended in the last quarter of the steps."""
        return [r for s, r in zip(self.steps, self.returns) if until * (1 - LATE) < s <= until]

    def score(self, until: float) -> float | None:
        late = self.late_returns(until)
        return sum(late) / len(late) if late else None

    def start(self, until: float) -> float | None:
        """The mean return of the first episodes."""
        early = [r for s, r in zip(self.steps, self.returns) if s <= until * EARLY] or list(self.returns[:5])
        return sum(early) / len(early) if early else None

    def time_to(self, level: float, window: int = 20) -> float | None:
        """Seconds until the mean return of `window` episodes first reached a level."""
        recent = sum(self.returns[:window])
        for last in range(window - 1, len(self.returns)):
            if last >= window:
                recent += self.returns[last] - self.returns[last - window]
            if recent / window >= level:
                return self.seconds[last]
        return None

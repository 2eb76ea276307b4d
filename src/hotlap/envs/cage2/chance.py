"""What is decided by chance in a step: drawn from an environment's random numbers, or as it was recorded.

Where a recorded outcome is not possible, the first possible one is taken, so that any numbers can be replayed; a recording that
fits is then followed exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hotlap.envs.cage2.scenario import ALERT_IN, FAVOURITE_IN, NO_TARGET
from hotlap.envs.rng import Rng


class Recorded(NamedTuple):
    """A step's outcomes in a recording: `red_target`, `red_exploit`, `red_detected`, `red_escalated`."""

    target: int = NO_TARGET
    exploit: int = 0
    detected: int = 0
    escalated: int = 0


class Chance:
    """Draws, in the order in which they are asked for; `recorded` replaces them."""

    def __init__(self, rng: Rng, recorded: Recorded | None = None) -> None:
        self.rng, self.recorded = rng, recorded

    def host(self, candidates: Sequence[int]) -> int:
        """One of the hosts, all equally likely."""
        if self.recorded is None:
            return candidates[self.rng.below(len(candidates))]
        return self.recorded.target if self.recorded.target in candidates else candidates[0]

    def exploit(self, options: Sequence[int]) -> int:
        """Which of the exploits, by its place. The first three times of four, else one of the others; with one, no draw."""
        if self.recorded is not None:
            return options.index(self.recorded.exploit) if self.recorded.exploit in options else 0
        if len(options) == 1 or self.rng.below(FAVOURITE_IN):
            return 0
        return 1 + self.rng.below(len(options) - 1)

    def alert(self) -> bool:
        return bool(self.rng.below(ALERT_IN)) if self.recorded is None else self.recorded.detected == 1

    def session(self, sessions: Sequence[int]) -> int:
        """The kind of a session; there are so many of each kind, none of them privileged, and all are equally likely."""
        each = [kind for kind, count in enumerate(sessions) for _ in range(count)]
        if self.recorded is None:
            return each[self.rng.below(len(each))]
        return self.recorded.escalated if self.recorded.escalated in each else each[0]

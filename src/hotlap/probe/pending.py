"""Time whose stage is not known yet: the next anchor, an environment step or a backward pass, says what it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from hotlap.core import stages
from hotlap.core.paths import ACT, LOSS, STORE, TARGET
from hotlap.core.paths import OPTIMIZER as OPTIMIZE
from hotlap.probe.sampler import Stack

AFTER_ENV, PASS, GRADIENT_PASS, AFTER_UPDATE, AFTER_BACKWARD, IN_PHASE, START, TARGETED = range(8)
BEFORE_ENV = (STORE, ACT, ACT, "", OPTIMIZE, "", "", TARGET)  # what pending time was, by its kind
BEFORE_BACKWARD = (stages.SAMPLE, LOSS, LOSS, stages.SAMPLE, LOSS, "", "", stages.SAMPLE)
BY_LINES = (AFTER_ENV, AFTER_UPDATE, TARGETED)  # kinds of time of which the lines that ran know more


class Moment:
    """When a stack sample was taken. Its name is the stage of that time, once that is known."""

    __slots__ = ("by_lines", "seconds", "stack", "time", "what")

    def __init__(self, time: int, stack: Stack = (), seconds: float = 0.0) -> None:
        self.time = time
        self.stack = stack
        self.seconds = seconds  # that the sample stands for
        self.by_lines: str | None = None  # the stage that the lines of its stack name, if they do
        self.what: Pending | str = ""

    def __str__(self) -> str:
        return self.what if isinstance(self.what, str) else self.what.path


class Pending:
    __slots__ = ("copying", "counts", "is_known", "kind", "moments", "path", "rows", "settled", "time")

    def __init__(self, kind: int, rows: int = 0, path: str | None = None) -> None:
        self.kind = kind
        self.rows = rows  # of a forward pass
        self.is_known = path is not None
        self.path = path or ""  # of a phase or a line; of anything, once it is settled
        self.moments: Sequence[Moment] = ()  # stack samples that may know more
        self.settled = False
        self.time = self.copying = 0
        self.counts: defaultdict[str, float] | None = None

    def note(self, what: str, number: float) -> None:
        self.counts = self.counts or defaultdict(float)
        self.counts[what] += number

"""The state of an investigation: settings, hypotheses, and what the last steps said. It is the record's, at every moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotlap.core.words import Word
from hotlap.record.hypothesis import Hypothesis


class LearningVerdict(Word):
    SAME_LOSSES = "same losses"
    OTHER_LOSSES = "other losses"
    NOT_REPEATABLE = "not repeatable"  # the original does not compute the same losses twice
    NOT_WORSE = "not worse"
    WORSE = "worse"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True)
class Settings:
    budget: float = 600.0  # seconds
    knobs: tuple[str, ...] = ()  # as the user names them
    rerun: bool = False  # the user says that the script may be run again and again
    allow_learning: bool = False
    seeds: int = 3
    dry: bool = False
    scratch: str = "auto"


@dataclass(frozen=True)
class Gain:
    """A measured ratio of costs with its interval: above 1, faster."""

    ratio: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class Total:
    """All accepted changes together, against the original."""

    everything: Gain | None = None
    same_learning: Gain | None = None  # without those that can change learning
    error: str | None = None


@dataclass(frozen=True)
class LossCheck:
    """The first losses of original and changed form, number by number."""

    verdict: LearningVerdict
    compared: int
    difference: float | None = None  # the largest, relative to the size of the losses


@dataclass(frozen=True)
class TimeRatio:
    """How many times sooner a level of return was reached."""

    ratio: float
    ci95: tuple[float, float]
    seeds: int


@dataclass(frozen=True)
class ReturnCheck:
    """Returns of original and changed form at equally many steps, over seeds: is the changed form not worse?"""

    verdict: LearningVerdict
    seeds: int
    steps: float
    scores: tuple[tuple[float | None, ...], ...] = ()  # of the original, of the changed form; by seed
    difference: float | None = None
    ci95: tuple[float, float] | None = None
    margin: float | None = None  # how much worse is allowed
    learned: float | None = None  # by the original, from its start
    level: float | None = None  # of the mean return, that times are taken to
    time_to_level: tuple[tuple[float | None, ...], ...] | None = None  # seconds, as `scores`
    time_ratio: TimeRatio | None = None


@dataclass(frozen=True)
class LearningCheck:
    losses: LossCheck | None = None  # of the changes that cannot change learning
    returns: ReturnCheck | None = None  # of all changes
    error: str | None = None


@dataclass(frozen=True)
class InvestigationState:
    command: str = ""  # the target as the user named it, secrets masked
    settings: Settings = field(default_factory=Settings)
    hypotheses: tuple[Hypothesis, ...] = ()
    planned: dict[str, tuple[int, ...]] = field(default_factory=dict)  # number of a profile -> ids
    spent: float = 0.0  # seconds
    unsafe: tuple[str, ...] | None = None  # why the script should not be run again; None: not looked up
    contained: tuple[str, ...] = ()  # what it does to files and databases in files, which the scratch contains
    total: Total | None = None
    losses: LossCheck | None = None
    learning: LearningCheck | None = None
    after: str | None = None  # folder of the last profile
    horizon: int | None = None  # with which time was measured, if it was shortened

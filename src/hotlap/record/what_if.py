"""What-if curves: what a change would cost or save, measured on copies of the script's own objects when it is stopped."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotlap.core.words import Word


class Change(Word):
    """What is different from one cost of a curve to the next."""

    ACTING_ROWS = "rows when acting"
    LEARNING_ROWS = "rows when learning"
    ACTING_WIDTH = "width when acting"
    LEARNING_WIDTH = "width when learning"
    GRADIENTS = "gradients when acting"
    CHECKS = "checks of distributions"
    OPTIMIZER = "optimizer step"
    PARAMETER_LOOP = "loop over parameters"
    SEQUENCE = "recurrent steps"
    THREADS = "torch threads"
    ANOMALY = "anomaly detection"
    PIPE = "payload through a pipe"


# The forms of the changes that have no size.
GRADIENTS, NO_GRADIENTS = "with gradients", "without gradients"
CHECKED, UNCHECKED = "checked", "unchecked"
LOOP, FOREACH, FUSED = "loop", "foreach", "fused"
STEP_BY_STEP, AT_ONCE = "step by step", "at once"
DETECTING, NOT_DETECTING = "on", "off"
THROUGH_PIPE, IN_PROCESS = "pipe", "in one process"


@dataclass(frozen=True)
class Cost:
    """What one form costs: the lower quartile of short repeats, the fastest of them and the median."""

    form: str  # "64 rows", "foreach"
    size: float  # rows, or the part of the width; 0 where a form has none
    seconds: float
    fastest: float
    median: float


@dataclass(frozen=True)
class CostCurve:
    """The same work in several forms; the first is as the script has it."""

    change: Change
    what: str  # "Actor and Critic", "Adam, 12 tensors"
    costs: tuple[Cost, ...]
    calls: float = 0.0  # of that work per environment step (acting, checks) or per update, in the window that was watched
    seen: float | None = None  # seconds that it took there, the median: in the script caches are cold
    part: float = 1.0  # of its stage's time there: of acting, of the loss


@dataclass(frozen=True)
class EnvLayer:
    """A layer of the environments as watched: a wrapper, a vector, or the environment inside them all."""

    name: str
    calls: float  # per call of the outermost step
    seconds: float  # exclusive, per call of the outermost step: the median of its own calls, times their number
    is_vector: bool = False  # whether it steps several environments at once


@dataclass(frozen=True)
class WhatIfCurves:
    curves: tuple[CostCurve, ...] = ()
    layers: tuple[EnvLayer, ...] = ()  # from the outermost to the innermost
    skipped: dict[str, str] = field(default_factory=dict)  # what could not be measured, and why
    seconds: float = 0.0  # that measuring took

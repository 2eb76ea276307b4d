"""Kinds of events, which hooks report: see events.py. Of passes, the kind with gradients is one more than the kind without."""

from __future__ import annotations

from hotlap.core import stages
from hotlap.core.counts import BYTES_TO_DEVICE, BYTES_TO_HOST, COPIES_TO_DEVICE, COPIES_TO_HOST
from hotlap.core.paths import RESET, STEP, WAIT

Event = tuple[int, int, int, int, int]  # kind, begin, end, and two numbers that its kind needs

STEPPED, RESETTING, EVALUATING, WAITED, ENDED, FORWARD, GRADIENT_FORWARD, COMPILED, GRADIENT_COMPILED = range(9)
BACKWARD, OPTIMIZER, REGION, PHASE, CARVED, TO_DEVICE, TO_HOST, SYNCS, TARGETING, LINE = range(9, 19)
ENV_PATHS = {STEPPED: STEP, RESETTING: RESET, EVALUATING: RESET, WAITED: WAIT}
COPIES = {TO_DEVICE: COPIES_TO_DEVICE, TO_HOST: COPIES_TO_HOST}
BYTES = {TO_DEVICE: BYTES_TO_DEVICE, TO_HOST: BYTES_TO_HOST}

PATHS: list[str] = []  # of stages, by the numbers that events hold
_NUMBERS: dict[str, int] = {}


def number_of(path: str) -> int:
    """A number for a stage's path, for events."""
    if path not in _NUMBERS:
        _NUMBERS[path] = len(PATHS)
        PATHS.append(path)
    return _NUMBERS[path]


def is_training(event: Event) -> bool:
    """Whether a script that trains did this; waiting, copying, reading and printing numbers it may do long after."""
    kind, _, _, first, inside = event
    if kind == REGION:
        return PATHS[first] != stages.LOG
    return bool(inside) if kind == SYNCS else kind not in (WAITED, TO_DEVICE, TO_HOST, PHASE, CARVED, TARGETING, LINE)

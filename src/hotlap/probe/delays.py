"""Injected delays: known time added to a stage of a script, to see how much of it the whole notices.

HOTLAP_DELAY holds {stage path: seconds}; hooks put the delay behind the function they stand for. Delays of environments happen
where the environment's own code runs, in a worker process if that is where it lives; those of other stages where they are.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from typing import Any

from hotlap.core import stages

VARIABLE = "HOTLAP_DELAY"
ENV_STEP, ACT = f"{stages.COLLECT}/{stages.ENV_STEP}", f"{stages.COLLECT}/{stages.ACT}"
LOSS = f"{stages.UPDATE}/{stages.LOSS}"
_seconds: dict[str, float] = json.loads(os.environ.get(VARIABLE, "{}"))
_open = 0  # delayed functions that are open
_waited = False  # for a worker, inside the environment that is open
injected = 0  # delays in this process so far


def is_on() -> bool:
    """Whether this process runs for a sweep of delays, if only with one of 0."""
    return bool(_seconds)


def spin(path: str) -> None:
    """Add the delay of a stage here."""
    global injected
    if seconds := _seconds.get(path):
        end = time.perf_counter() + seconds
        injected += 1
        while time.perf_counter() < end:
            pass


def note_wait() -> None:
    global _waited
    _waited = True


def slowed_pass(original: Callable[..., Any], is_grad_enabled: Callable[[], bool]) -> Callable[..., Any]:
    """A module's call with its delay: with gradients it computes a loss, without it acts."""
    if not {ACT, LOSS} & _seconds.keys():
        return original
    with_gradients, without = slowed(LOSS, original), slowed(ACT, original)

    def call(*args: Any, **kwargs: Any) -> Any:
        return (with_gradients if is_grad_enabled() else without)(*args, **kwargs)

    return call


def slowed(path: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its delay; itself if there is none. Of nested ones only one is delayed: the innermost environment,
    whose code does the work, and the outermost function of any other stage."""
    if path not in _seconds:
        return original
    innermost = path == ENV_STEP

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        global _open, _waited
        _open += 1
        depth, before = _open, injected
        _waited = False
        try:
            result = original(*args, **kwargs)
        finally:
            _open -= 1
        if (innermost and injected == before and not _waited) or (not innermost and depth == 1):
            spin(path)
        return result

    return call

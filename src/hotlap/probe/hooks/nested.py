"""Hooks of environments that only ever step inside other environments: taken off once they were watched.

Such a hook has nothing left to tell, and several layers of wrappers pass through one each on every step. It is put back as
soon as an environment of its class is reset by something else than another environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

STEP = "step"
_taken_off: dict[type, Callable[..., Any]] = {}  # the hooks of each class


def take_off(nested: Iterable[type], outermost: Iterable[type]) -> None:
    """Classes of environments that stepped inside others, and of those that did not."""
    kept = _with_bases(outermost)
    for owner in _with_bases(nested) - kept:
        hook = owner.__dict__.get(STEP)
        original = getattr(hook, "__wrapped__", None)
        if hook is None or original is None or not hasattr(hook, "__hotlap__"):
            continue
        _taken_off[owner] = hook
        if hasattr(original, "__inherited__"):
            delattr(owner, STEP)
        else:
            setattr(owner, STEP, original)


def put_back(env: Any) -> None:
    if _taken_off:
        _hook(type(env).__mro__)


def put_all_back() -> None:
    _hook(list(_taken_off))


def _hook(classes: Iterable[type]) -> None:
    for cls in classes:
        if (hook := _taken_off.pop(cls, None)) is not None:
            setattr(cls, STEP, hook)


def _with_bases(classes: Iterable[type]) -> set[type]:
    return {base for cls in classes for base in cls.__mro__}

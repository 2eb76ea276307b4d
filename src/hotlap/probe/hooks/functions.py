"""The user's functions that store a transition, or are a stage by what is written in them, before Python 3.12.

They say when they begin and end; nothing inside them is hidden. From Python 3.12 on the lines of the loop say all that exactly.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

from hotlap.core.paths import STORE
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import Around, wrap
from hotlap.probe.sampler import is_users


def hook(events: Events, functions: Mapping[str, str]) -> None:
    """`functions`: name -> path of the stage."""
    arounds = {name: _storing(events) if path == STORE else _marking(events, path) for name, path in functions.items()}
    replaced: dict[int, Callable[..., Any]] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_users(file) and isinstance(module, ModuleType):
            with suppress(Exception):  # strange modules must never be the script's trouble
                _hook_module(module, arounds, replaced)


def _hook_module(module: ModuleType, arounds: Mapping[str, Around], replaced: dict[int, Callable[..., Any]]) -> None:
    for name, value in list(vars(module).items()):
        if isinstance(value, type):
            for method, around in arounds.items():
                if _is_ours(value.__dict__.get(method)):
                    wrap(value, method, around)
        elif _is_ours(value) and value.__name__ in arounds:
            if id(value) not in replaced:
                replaced[id(value)] = functools.wraps(value)(arounds[value.__name__](value))
                replaced[id(value)].__hotlap__ = True  # type: ignore[attr-defined]
            setattr(module, name, replaced[id(value)])


def _is_ours(value: Any) -> bool:
    """Whether this is a plain function of the user's: no hook of ours, of an adapter's, and nothing that only begins."""
    if not isinstance(value, FunctionType) or hasattr(value, "__hotlap__") or hasattr(value, "__wrapped__"):
        return False
    begins_only = inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value)
    return not begins_only and is_users(value.__code__.co_filename)


def _storing(events: Events) -> Around:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not events.inside:
                events.stored()
            return result

        return call

    return around


def _marking(events: Events, path: str) -> Around:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if events.inside:
                return original(*args, **kwargs)
            events.line_begins(path)
            try:
                return original(*args, **kwargs)
            finally:
                events.line_begins(None)

        return call

    return around

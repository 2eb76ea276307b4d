"""The objects of some classes that a script has: its networks, optimizers and environments.

The garbage collector lists all objects there are, hundreds of thousands, most of them made by libraries, and reading that list
takes thirty milliseconds of the training loop. So core.c looks first where a script keeps its own: in the variables of the
functions that run now, and of its modules. What was seen at work must be among what that finds; else the list is read.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection
from types import FrameType, ModuleType
from typing import Any

from hotlap.probe import core
from hotlap.probe.hooks.plain import is_users_module

MOST = 50_000  # objects that are looked at; beyond that, the collector's list is quicker


def alive(classes: tuple[type, ...], at_work: Collection[int]) -> list[Any]:
    """Objects of exactly these classes. `at_work` are ids of objects that the script was seen to use."""
    found = _reached(classes, at_work) if at_work else None
    return core.instances(gc.get_objects(), classes) if found is None else found


def _reached(classes: tuple[type, ...], at_work: Collection[int]) -> list[Any] | None:
    """None if not all that is at work can be reached."""
    if core.reachable is None:
        return None
    roots: list[Any] = []
    others: list[Any] = []  # the variables of libraries' modules, on which everything hangs that these made
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            (roots if is_users_module(name, module) else others).append(module.__dict__)
    for variables in roots[:]:
        for value in list(variables.values()):
            if isinstance(value, type) and value.__module__ == variables.get("__name__"):
                roots += value.__dict__.values()
    try:
        for frame in sys._current_frames().values():
            roots += _variables(frame)
    except NotImplementedError:  # nobody knows how to read them in this Python
        return None
    return core.reachable(roots, others, classes, tuple(at_work), MOST)


def _variables(frame: FrameType | None) -> list[Any]:
    """Of all functions on a stack, hotlap's own left out."""
    values: list[Any] = []
    while frame is not None:
        if not str(frame.f_globals.get("__name__")).startswith("hotlap."):
            values += core.variables(frame)
        frame = frame.f_back
    return values

"""Environments that derive from nothing: classes of the user's own with a `step` that returns observation, reward and done.

When an optimizer is made, training is about to begin: every class of the user's own modules with a method of such a name and an
action is on trial. What its first call returns decides: an agent or a scheduler returns no transition, and is left alone.
"""

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from hotlap.probe.events import EVENTS
from hotlap.probe.hooks.patching import Finder, wrap
from hotlap.probe.sampler import is_users

STEP_METHODS = ("step", "advance", "tick", "transition")
_STEPS_OF_OTHERS = ("closure", "epoch", "metrics")  # what optimizers and schedulers are given
_REPORTED = (3, 4, 5)  # observation, reward, done; and perhaps truncated, or more

Found = Callable[[type, str], None]  # (a class that proves to be an environment, its method that steps)
_found: list[Found] = []
_users: dict[str, bool] = {}  # whether a module is the user's own
_tried: set[type] = set()


def watch(found: Found) -> None:
    """From now on, tell of each class of environments once it has made its first step."""
    _found.append(found)
    if len(_found) > 1:
        return

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> Any:
            _scan()
            return original(self, *args, **kwargs)

        return init

    def patch(module: Any, _: Any) -> None:
        wrap(module.Optimizer, "__init__", around)

    Finder(EVENTS, {"torch.optim.optimizer": [patch]}).install()


def _scan() -> None:
    """Put the classes of the user's modules on trial that are new."""
    for name, module in list(sys.modules.items()):
        with suppress(Exception):  # strange modules and classes must never be the script's trouble
            if name not in _users:
                file = getattr(module, "__file__", None) or "<"
                _users[name] = name == "__main__" or (
                    is_users(file) and not name.startswith("hotlap.")
                )  # a notebook has no file
            for cls in [*vars(module).values()] if _users[name] else ():
                if isinstance(cls, type) and cls.__module__ == name and cls not in _tried:
                    _tried.add(cls)
                    for method in STEP_METHODS:
                        if method in cls.__dict__:
                            _try(cls, method)


def _try(cls: Any, name: str) -> None:
    """Judge a class by the first call of its own method of this name."""
    step = cls.__dict__[name]
    code = getattr(step, "__code__", None)
    if code is None or hasattr(step, "__hotlap__") or code.co_argcount < 2:
        return
    if code.co_varnames[1] in _STEPS_OF_OTHERS or any(base.__module__.startswith("torch.") for base in cls.__mro__):
        return
    judged = False

    @functools.wraps(step)
    def on_trial(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal judged
        result = step(self, *args, **kwargs)
        if not judged:
            judged = True
            if cls.__dict__.get(name) is on_trial:
                setattr(cls, name, step)
                if _is_transition(result):
                    for found in _found:
                        found(cls, name)
        return result

    setattr(cls, name, on_trial)


def _is_transition(result: Any) -> bool:
    if not isinstance(result, tuple) or len(result) not in _REPORTED:
        return False
    rewards, dones = (_numbers(part) for part in result[1:3])
    if rewards is None or dones is None or dones.shape not in (rewards.shape, ()):
        return False
    return bool(np.isin(dones, (0, 1)).all())


def _numbers(value: Any) -> Any:
    """Numbers as an array; None for anything else."""
    with suppress(Exception):  # strange objects must never be the script's trouble
        found = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        return found if found.dtype.kind in "fiub" and found.ndim < 2 and found.size else None
    return None


def rows(env: Any, action: Any, result: Any) -> int:
    """How many environments a step moved: as many as there are rewards."""
    reward = result[1]
    shape = getattr(reward, "shape", ())
    return int(shape[0]) if shape else len(reward) if isinstance(reward, list) else 1

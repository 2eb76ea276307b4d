"""Environment classes that do not subclass `gym.Env`: user code with a `step` that returns observation, reward and done.

When an optimizer is made, training is about to begin: every class of the user's modules with a method of such a name and an
action is on trial. What its first call returns decides: an agent or a scheduler returns no transition, and is left alone.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from hotlap.core.paths import STEP_METHODS
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks.environments import patch_environments
from hotlap.probe.hooks.patching import Finder, wrap
from hotlap.probe.sampler import is_users

_STEPS_OF_OTHERS = ("closure", "epoch", "metrics")  # what optimizers and schedulers are given
_REPORTED = (3, 4, 5)  # observation, reward, done; and perhaps truncated, or more

OnClass = Callable[[type, str], None]  # (a class that proves to be an environment, its method that steps)
_listeners: list[OnClass] = []
_users: dict[str, bool] = {}  # whether a module is user code
_tried: set[type] = set()


def watch(on_class: OnClass) -> None:
    """From now on, tell of each class of environments once it has made its first step."""
    _listeners.append(on_class)
    if len(_listeners) > 1:
        return

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, *args: Any, **kwargs: Any) -> Any:
            _scan()
            return original(self, *args, **kwargs)

        return init

    def patch(module: Any, _: Any) -> None:
        wrap(module.Optimizer, "__init__", around)

    Finder(EVENTS, {"torch.optim.optimizer": [patch]}).install()


def hook(events: Events) -> None:
    """See the steps of such classes."""
    watch(lambda cls, name: patch_environments(cls, events, rows, also=(name,)))


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
    """Decide whether a class is an environment by the first call of its method of this name."""
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
                    for on_class in _listeners:
                        on_class(cls, name)
        return result

    setattr(cls, name, on_trial)


def _is_transition(result: Any) -> bool:
    if not isinstance(result, tuple) or len(result) not in _REPORTED:
        return False
    rewards, dones = (_numbers(part) for part in result[1:3])
    if rewards is None or dones is None or dones.shape not in (rewards.shape, ()):
        return False
    return all(done in (0, 1) for done in dones.values)


class _Numbers(NamedTuple):
    shape: tuple[int, ...]
    values: list[float]


def _numbers(value: Any) -> _Numbers | None:
    """A number, or a row of them in an array, a tensor or a list; None for anything else."""
    with suppress(Exception):  # strange objects must never be the script's trouble
        if hasattr(value, "tolist"):
            shape = tuple(value.shape)
            values = value.tolist() if len(shape) == 1 else [value.tolist()]
        elif isinstance(value, (list, tuple)):
            shape = (len(value),)
            values = [item.tolist() if hasattr(item, "tolist") else item for item in value]
        else:
            shape, values = (), [value]
        if values and len(shape) < 2 and all(isinstance(item, (bool, int, float)) for item in values):
            return _Numbers(shape, values)
    return None


def rows(env: Any, action: Any, result: Any) -> int:
    """How many environments a step moved: as many as there are rewards."""
    reward = result[1]
    shape = getattr(reward, "shape", ())
    return int(shape[0]) if shape else len(reward) if isinstance(reward, list) else 1

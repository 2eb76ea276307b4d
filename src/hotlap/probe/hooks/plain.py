"""Environment classes that do not subclass `gym.Env`: user code with a `step` that returns observation, reward and done.

When an optimizer is made, training is about to begin: every class of the user's modules with a method of such a name and an
action is on trial. What its first call returns decides: an agent or a scheduler returns no transition, and is left alone. An
environment's first step counts like any other, although it was known to be one only afterwards.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from hotlap.core.paths import STEP_METHODS
from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks.environments import patch_environments
from hotlap.probe.hooks.patching import Finder, wrap
from hotlap.probe.kinds import ENDED, STEPPED
from hotlap.probe.sampler import is_users
from hotlap.probe.transitions import Transition, transition_of

_STEPS_OF_OTHERS = ("closure", "epoch", "metrics")  # what optimizers and schedulers are given


@dataclass(frozen=True)
class FirstStep:
    """The step that proved a class to be an environment."""

    cls: type
    method: str
    transition: Transition
    env: Any
    result: Any
    began: int
    counted: int  # steps that other environments counted meanwhile, which it may be made of


OnClass = Callable[[FirstStep], None]
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

    def on_class(first: FirstStep) -> None:
        transition = first.transition
        patch_environments(first.cls, events, transition.steps, also=(first.method,), reader=transition.reader)
        _count(first, events)

    watch(on_class)


def _count(first: FirstStep, events: Events) -> None:
    """Count the step that has just been made, unless it happened inside something that claims all of its time."""
    if not events.active or get_ident() != events.thread:
        return
    number = first.transition.steps(first.env, None, first.result) - first.counted
    ended = () if first.counted else first.transition.reader.ended(first.env, first.result)
    if events.paused and not events.region:
        events.stepped_while_paused(id(first.env), number, ended)
    elif not events.inside:
        events.stepped(STEPPED, first.began, id(first.env), number)
        for which in ended:
            events.at_once(ENDED, id(first.env), which)


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
        began, before = EVENTS.now(), EVENTS.env_steps
        result = step(self, *args, **kwargs)
        if not judged:
            judged = True
            if cls.__dict__.get(name) is on_trial:
                setattr(cls, name, step)
                if transition := transition_of(result):
                    first = FirstStep(cls, name, transition, self, result, began, EVENTS.env_steps - before)
                    for on_class in _listeners:
                        on_class(first)
        return result

    setattr(cls, name, on_trial)

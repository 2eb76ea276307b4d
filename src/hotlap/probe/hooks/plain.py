"""Environments that do not subclass `gym.Env`: user code with a `step` that returns a reward and whether the episode is over.

Training is about to begin when an optimizer is made, or a worker process begins: then every method of the user's classes, and
every function that is named like a step, is on trial if it takes an action. What its first call returns decides: an agent or a
scheduler returns no transition, and is left alone. An environment's first step counts like any other, although it was known to
be one only afterwards.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any

from hotlap.probe.events import EVENTS, Events
from hotlap.probe.hooks.environments import patch_environments, resetting, stepping
from hotlap.probe.hooks.patching import Finder, Patch, wrap
from hotlap.probe.kinds import ENDED, STEPPED
from hotlap.probe.sampler import is_users
from hotlap.probe.transitions import Transition, transition_of

_MAY_STEP = re.compile(r"(^|_)(step|advance|tick|transition|move|play|turn|simulate)", re.IGNORECASE)
_FUNCTION = re.compile(r"(^|_)(step|advance|tick|transition)", re.IGNORECASE)
_MAY_RESET = re.compile(r"(^|_)reset(_|$)", re.IGNORECASE)
_LEARNS = re.compile(r"train|learn|updat|optim|fit|eval|grad|loss", re.IGNORECASE)
_AGENTS = re.compile(r"_*(act|choose|learn|train|forward|loss|backward|optimi[sz]e|sample|push|remember)(_|$)")
_STEPS_OF_OTHERS = ("closure", "epoch", "metrics")  # what optimizers and schedulers are given


@dataclass(frozen=True)
class FirstStep:
    """The step that proved a method of a class, or a function, to step an environment."""

    cls: type | None  # None of a function
    name: str
    transition: Transition
    env: Any
    result: Any
    began: int
    counted: int  # steps that other environments counted meanwhile, which it may be made of


class FunctionEnvironment:
    """Stands for the environment whose step is a function: its state is handed in and out."""


OnFirstStep = Callable[[FirstStep], None]
_listeners: list[OnFirstStep] = []
_users: dict[str, bool] = {}  # whether a module is user code
_tried: set[Any] = set()
_names: set[str] = set()


def step_names() -> tuple[str, ...]:
    """What the functions and methods are called that were found to step."""
    return tuple(sorted(_names))


def watch(on_first_step: OnFirstStep) -> None:
    """From now on, tell of each class and each function that steps environments, once it has made its first step."""
    _listeners.append(on_first_step)
    if len(_listeners) > 1:
        return

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            _scan()
            return original(self, *args, **kwargs)

        return call

    def patch_optimizers(module: Any, _: Any) -> None:
        wrap(module.Optimizer, "__init__", around)

    def patch_processes(module: Any, _: Any) -> None:  # a worker that steps makes no optimizer
        wrap(module.BaseProcess, "_bootstrap", around)

    patches: dict[str, list[Patch]] = {
        "torch.optim.optimizer": [patch_optimizers],
        "multiprocessing.process": [patch_processes],
    }
    Finder(EVENTS, patches).install()


def hook(events: Events) -> None:
    """See the steps of such environments."""

    def on_first_step(first: FirstStep) -> None:
        transition = first.transition
        _names.add(first.name)
        if first.cls is not None:
            patch_environments(first.cls, events, transition.steps, also=(first.name,), reader=transition.reader)
        _count(first, events)

    watch(on_first_step)


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


def is_users_module(name: str, module: Any) -> bool:
    if name not in _users:
        file = getattr(module, "__file__", None) or "<"
        # A notebook has no file.
        _users[name] = name == "__main__" or (is_users(file) and not name.startswith("hotlap."))
    return _users[name]


def _scan() -> None:
    """Put what may step in the user's modules on trial, if it is new."""
    for name, module in list(sys.modules.items()):
        with suppress(Exception):  # strange modules must never be the script's trouble
            for value in [*vars(module).values()] if is_users_module(name, module) else ():
                with suppress(Exception):  # nor strange classes
                    _try(name, value)


def _try(module: str, value: Any) -> None:
    """Put a class or a function of a module on trial."""
    if not isinstance(value, (type, FunctionType)) or value.__module__ != module or value in _tried:
        return
    _tried.add(value)
    if isinstance(value, type):
        for method in [method for method in vars(value) if not method.startswith("__")]:
            _try_method(value, method)
    elif _FUNCTION.search(value.__name__) and _may_step(value.__name__) and value.__code__.co_argcount:
        _try_function(value)


def _may_step(name: str) -> bool:
    return bool(_MAY_STEP.search(name)) and not _LEARNS.search(name)


def _try_method(cls: Any, name: str) -> None:
    """Decide whether a class is an environment by the first call of its method of this name."""
    step = cls.__dict__[name]
    if not isinstance(step, FunctionType) or hasattr(step, "__hotlap__") or step.__code__.co_argcount < 2:
        return
    if _LEARNS.search(name) or inspect.isgeneratorfunction(step) or inspect.iscoroutinefunction(step):
        return
    if step.__code__.co_varnames[1] in _STEPS_OF_OTHERS or any(base.__module__.startswith("torch.") for base in cls.__mro__):
        return
    if not _may_step(name) and (hasattr(getattr(cls, "step", None), "__hotlap__") or any(map(_AGENTS.match, vars(cls)))):
        return  # a part of an environment that is known, or of an agent or a buffer

    def put_back() -> None:
        if cls.__dict__.get(name) is on_trial:
            setattr(cls, name, step)

    on_trial = _on_trial(step, cls, put_back)
    setattr(cls, name, on_trial)


def _try_function(step: FunctionType) -> None:
    """The same for a function, under whatever names the user's modules know it."""
    env = FunctionEnvironment()

    def put_back() -> None:
        _replace(on_trial, step)

    def prove(first: FirstStep) -> None:
        as_method = stepping(EVENTS, first.transition.steps, first.transition.reader)(lambda _, *a, **k: step(*a, **k))
        _replace(step, functools.wraps(step)(functools.partial(as_method, env)))
        for name, value in list(vars(sys.modules[step.__module__]).items()):
            if isinstance(value, FunctionType) and value.__module__ == step.__module__ and _MAY_RESET.search(name):
                begin = resetting(EVENTS)(lambda _, *a, __reset=value, **k: __reset(*a, **k))
                _replace(value, functools.wraps(value)(functools.partial(begin, env)))

    on_trial = _on_trial(step, None, put_back, env, prove)
    _tried.add(on_trial)
    _replace(step, on_trial)


def _on_trial(
    step: Any, cls: type | None, put_back: Callable[[], None], env: Any = None, prove: OnFirstStep = lambda _: None
) -> Callable[..., Any]:
    judged = False

    @functools.wraps(step)
    def on_trial(*args: Any, **kwargs: Any) -> Any:
        nonlocal judged
        began, before = EVENTS.now(), EVENTS.env_steps
        result = step(*args, **kwargs)
        if not judged:
            judged = True
            put_back()
            transition = transition_of(result, _may_step(step.__name__))
            steps = EVENTS.env_steps - before
            if transition is not None and not _is_something_else(transition, cls is None, args, steps):
                stepped = args[0] if cls is not None else env
                first = FirstStep(cls, step.__name__, transition, stepped, result, began, steps)
                prove(first)
                for on_first_step in _listeners:
                    on_first_step(first)
        return result

    return on_trial


def _is_something_else(transition: Transition, is_function: bool, args: tuple[Any, ...], steps: int) -> bool:
    """A function that plays a whole episode; a method that does so, or one that watches a number and says when to stop."""
    if is_function and steps:
        return True
    return transition.observation is None and (
        steps > 0 or (transition.length == 2 and any(isinstance(given, float) for given in args[1:]))
    )


def _replace(old: Any, new: Any) -> None:
    """Wherever the user's modules have it under a name of their own."""
    for name, module in list(sys.modules.items()):
        if _users.get(name) and isinstance(module, ModuleType):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)

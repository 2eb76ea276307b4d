"""Hooks that see environments step and reset, whatever they derive from."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap.core.paths import RESET, STEP
from hotlap.probe import core, delays
from hotlap.probe.events import Events
from hotlap.probe.hooks import plain as own_environments
from hotlap.probe.hooks.patching import Around, wrap_family
from hotlap.probe.timeline import ENDED, EVALUATING, RESETTING, STEPPED

Steps = Callable[[Any, Any, Any], int]  # (environment, action, what step returned) -> how many steps that was


_NONE: Iterable[int] = ()


def num_envs(env: Any, action: Any, result: Any) -> int:
    return int(getattr(env, "num_envs", 1))


def patch_environments(
    base: type,
    events: Events,
    steps: Steps = num_envs,
    also: tuple[str, ...] = ("step_wait",),
    abstract: tuple[type, ...] = (),
) -> None:
    """Hook `step` and `reset` of a class of environments and of every class derived from it.

    `steps` says how many steps one call makes; `also` names methods that step too; `abstract` are classes to inherit from.
    """

    def look(env: Any, action: Any, result: Any) -> tuple[int, Iterable[int]]:
        """How many steps that was, and which episodes ended. What looks strange must never be the script's trouble."""
        number, ended = 1, _NONE
        with suppress(Exception):
            if events.look:
                _note_types(events, result)
            number = steps(env, action, result)
            ended = _ended(env, result)
        return number, ended

    def around_step(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(STEP, original)
        now = events.now

        def at_rest() -> bool:
            return not events.region and get_ident() == events.thread

        def step_at_rest(env: Any, *args: Any, **kwargs: Any) -> Any:
            events.region = STEP
            try:
                result = original(env, *args, **kwargs)
            finally:
                events.region = ""
            events.stepped_at_rest(id(env), *look(env, args[0] if args else None, result))
            return result

        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if (events.inside and not (events.resting and at_rest())) or get_ident() != events.thread:
                return original(env, *args, **kwargs)
            if events.resting and not events.wakes():
                return step_at_rest(env, *args, **kwargs)
            begin = now()
            if events.updated or begin >= events.late:
                events.transition()
                if events.resting:
                    return step_at_rest(env, *args, **kwargs)
                begin = now()
            if events.syncs:
                events.note_syncs(inside=False)
            events.inside, events.region = True, STEP
            number, ended = 0, _NONE
            try:
                result = original(env, *args, **kwargs)
                syncs = events.syncs
                number, ended = look(env, args[0] if args else None, result)
                events.syncs = syncs  # looking at the result is not the script's doing
                return result
            finally:
                events.stepped(STEPPED, begin, id(env), number)
                for which in ended:
                    events.at_once(ENDED, id(env), which)

        return core.step(events, original, call, look, STEPPED, steps is num_envs, False)

    def around_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if events.inside:
                if not events.in_environment(STEP):
                    return original(env, *args, **kwargs)
                begin = events.carve(RESET)  # an episode begins inside a step
                try:
                    return original(env, *args, **kwargs)
                finally:
                    events.carved(begin)
            evaluates = _evaluates()
            if not (begin := events.environment(RESET)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(EVALUATING if evaluates else RESETTING, begin, id(env))

        return call

    def around_begun(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if events.inside or not (begin := events.environment(STEP)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(STEPPED, begin, id(env))

        return call

    # A vector environment may be stepped in two halves.
    methods: dict[str, Around] = {"step": around_step, "reset": around_reset, "step_async": around_begun}
    wrap_family(base, methods | dict.fromkeys(also, around_step), abstract)


def _evaluates() -> bool:
    """Whether a function that resets an environment, or one that called it, says that it evaluates."""
    frame = sys._getframe(2)
    for _ in range(12):
        if frame is None or frame.f_code.co_name == "<module>":
            return False
        name = frame.f_code.co_name.lower()
        if "eval" in name:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _note_types(events: Events, result: Any) -> None:
    events.look = False
    observation = result[0] if isinstance(result, tuple) and result else result
    if isinstance(observation, dict):
        observation = next(iter(observation.values()), None)
    if hasattr(observation, "dtype"):
        events.types["observation"] = str(observation.dtype).removeprefix("torch.")


def _ended(env: Any, result: Any) -> Iterable[int]:
    """Which episodes a step ended. Knows what Gymnasium, SB3, PettingZoo, TorchRL, skrl and people's own classes return."""
    if isinstance(result, tuple):
        size = len(result)
        done: Any = result[2] if size in (3, 4, 5) else None
        truncated: Any = result[3] if size == 5 else False
        if isinstance(done, list):
            return [number for number, over in enumerate(done) if over]
        if getattr(done, "ndim", 0) and hasattr(done, "tobytes"):
            if done.dtype.itemsize > 1:  # numbers for yes and no
                return _which(done if truncated is False else (done != 0) | (truncated != 0))
            if b"\x01" not in done.tobytes() and (truncated is False or b"\x01" not in truncated.tobytes()):
                return _NONE  # by far the most frequent case, and ten times faster than asking numpy
            return _which(done if truncated is False else done | truncated)
        if size == 2:
            result = result[0]
        elif isinstance(done, dict):  # by agent; the episode ends for all
            return (0,) if done and all(done[a] or (truncated and truncated.get(a)) for a in done) else _NONE
        elif hasattr(done, "is_cuda"):
            return _NONE if done.is_cuda else _which_tensor(done if truncated is False else done | truncated)
        else:
            return (0,) if done or truncated else _NONE
    if result is None:  # agents take turns
        return (0,) if getattr(env, "agents", None) == [] else _NONE
    if hasattr(result, "batch_size"):  # a TensorDict
        return _which_tensor(result.get(("next", "done"), None))
    return _NONE


def _which(done: Any) -> Iterable[int]:
    return [int(number) for number in done.ravel().nonzero()[0]]


def _which_tensor(done: Any) -> Iterable[int]:
    if done is None or done.is_cuda:  # looking at it would make the host wait for the device
        return _NONE
    return _which(done.detach().__array__())


def patch_gymnasium(module: ModuleType, events: Events) -> None:
    wrappers = ("Wrapper", "ObservationWrapper", "ActionWrapper", "RewardWrapper")
    patch_environments(module.Env, events, abstract=tuple(getattr(module, name) for name in wrappers))
    patch_environments(module.vector.VectorEnv, events)


def see_own_environments(events: Events) -> None:
    """Also environments that derive from nothing."""
    own_environments.watch(lambda cls, name: patch_environments(cls, events, own_environments.rows, also=(name,)))


def patch_pettingzoo(module: ModuleType, events: Events) -> None:
    """One step is one call: all agents of a parallel environment; the agent whose turn it is, unless it is dead."""
    patch_environments(module.ParallelEnv, events, lambda env, action, result: 1)
    patch_environments(module.AECEnv, events, lambda env, action, result: int(action is not None))

"""Hooks that see environments step and reset, whatever their classes derive from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident
from typing import Any

from hotlap.core.paths import RESET, STEP
from hotlap.probe import core, delays
from hotlap.probe.events import Events
from hotlap.probe.hooks import nested
from hotlap.probe.hooks.patching import Around, wrap_family
from hotlap.probe.kinds import ENDED, EVALUATING, RESETTING, STEPPED
from hotlap.probe.results import NONE, TUPLES, StepReader, attribute

DEEPEST = 32  # wrappers around wrappers, as in core.c
Steps = Callable[[Any, Any, Any], int]  # (environment, action, what step returned) -> how many steps that was


def num_envs(env: Any, action: Any, result: Any) -> int:
    """How many environments there are in it, or in what it wraps."""
    for _ in range(DEEPEST):
        number = attribute(env, "num_envs")
        if number is not None:
            return int(number)
        env = attribute(env, "env")
        if env is None:
            break
    return 1


def patch_environments(
    base: type,
    events: Events,
    steps: Steps = num_envs,
    also: tuple[str, ...] = ("step_wait",),
    abstract: tuple[type, ...] = (),
    reader: StepReader = TUPLES,
) -> None:
    """Hook `step` and `reset` of a class of environments and of every class derived from it.

    `steps` says how many steps one call makes; `also` names methods that step too; `abstract` are classes to inherit from;
    `reader` reads what a step returns.
    """
    around_step = stepping(events, steps, reader)
    # A vector environment may be stepped in two halves.
    methods: dict[str, Around] = {"step": around_step, "reset": resetting(events), "step_async": _beginning(events)}
    wrap_family(base, methods | dict.fromkeys(also, around_step), abstract)


def stepping(events: Events, steps: Steps = num_envs, reader: StepReader = TUPLES) -> Around:
    """Around a method that steps an environment."""

    def read(env: Any, action: Any, result: Any) -> tuple[int, Iterable[int]]:
        """How many steps that was, and which episodes ended. Strange objects must never be the script's trouble."""
        number, ended = 1, NONE
        with suppress(Exception):
            if events.types_wanted:
                _note_types(events, reader.observation(result))
            number = steps(env, action, result)
            ended = reader.ended(env, result)
        return number, ended

    def around_step(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(STEP, original)
        now = events.now

        def is_outermost() -> bool:
            return not events.region and get_ident() == events.thread

        def step_while_paused(env: Any, *args: Any, **kwargs: Any) -> Any:
            events.region = STEP
            try:
                result = original(env, *args, **kwargs)
            finally:
                events.region = ""
            events.stepped_while_paused(id(env), *read(env, args[0] if args else None, result))
            return result

        def step_elsewhere(env: Any, *args: Any, **kwargs: Any) -> Any:
            tally = events.elsewhere()
            if tally is None or not (begin := tally.enter()):
                return original(env, *args, **kwargs)
            inside = events.region == STEP
            try:
                result = original(env, *args, **kwargs)
            finally:
                tally.leave(STEP, begin)
            number, ended = read(env, args[0] if args else None, result)
            tally.stepped(id(env), number if events.counting else 0, ended, inside)
            return result

        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != events.thread:
                return step_elsewhere(env, *args, **kwargs)
            if events.inside and not (events.paused and is_outermost()):
                if events.watching_steps and events.in_environment(STEP):
                    return events.watch.step(env, original, args, kwargs)
                return original(env, *args, **kwargs)
            if events.paused and not events.resumes():
                return step_while_paused(env, *args, **kwargs)
            begin = now()
            if events.updated or begin >= events.late:
                events.transition()
                if events.paused:
                    return step_while_paused(env, *args, **kwargs)
                begin = now()
            if events.inside:  # what was measured until here is enough
                return original(env, *args, **kwargs)
            if events.syncs:
                events.note_syncs(inside=False)
            events.inside, events.region = True, STEP
            number, ended = 0, NONE
            try:
                if events.watching_steps:
                    result = events.watch.step(env, original, args, kwargs)
                    events.watching_steps = events.watch.wants_steps
                else:
                    result = original(env, *args, **kwargs)
                syncs = events.syncs
                number, ended = read(env, args[0] if args else None, result)
                events.syncs = syncs  # reading the result is not the script's doing
                return result
            finally:
                events.stepped(STEPPED, begin, id(env), number)
                for which in ended:
                    events.at_once(ENDED, id(env), which)

        return core.step(events, original, call, read, STEPPED, steps is num_envs and reader is TUPLES, False)

    return around_step


def resetting(events: Events) -> Around:
    """Around a method that begins an episode."""

    def around_reset(original: Callable[..., Any]) -> Callable[..., Any]:
        def reset_while_paused(env: Any, *args: Any, **kwargs: Any) -> Any:
            nested.put_back(env)
            events.region = RESET
            try:
                return original(env, *args, **kwargs)
            finally:
                events.region = ""

        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if get_ident() != events.thread:
                nested.put_back(env)
                return original(env, *args, **kwargs)
            if events.inside:
                if events.paused and not events.region:
                    return reset_while_paused(env, *args, **kwargs)
                if not events.in_environment(STEP):
                    return original(env, *args, **kwargs)
                begin = events.carve(RESET)  # an episode begins inside a step
                try:
                    return original(env, *args, **kwargs)
                finally:
                    events.carved(begin)
            nested.put_back(env)
            evaluates = is_evaluation()
            if not (begin := events.environment(RESET)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(EVALUATING if evaluates else RESETTING, begin, id(env))

        return call

    return around_reset


def _beginning(events: Events) -> Around:
    """Around a method that begins a step, which another one ends."""

    def around_begun(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(env: Any, *args: Any, **kwargs: Any) -> Any:
            if events.inside or not (begin := events.environment(STEP)):
                return original(env, *args, **kwargs)
            try:
                return original(env, *args, **kwargs)
            finally:
                events.end(STEPPED, begin, id(env))

        return core.unless(events, original, call, None, 0, core.INSIDE, False)

    return around_begun


def is_evaluation() -> bool:
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


def _note_types(events: Events, observation: Any) -> None:
    events.types_wanted = False
    if hasattr(observation, "dtype"):
        events.types["observation"] = str(observation.dtype).removeprefix("torch.")

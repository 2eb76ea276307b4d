"""What the what-if curves need to know of one window: modules and their inputs, layers of environments, distributions.

Hooks report here only during the traced window, from which no times of stages are taken.
"""

from __future__ import annotations

import sys
import weakref
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import Any

from hotlap.core import stages
from hotlap.core.counts import ENV_STEPS, UPDATES
from hotlap.core.paths import ACT, BACKWARD, LOSS
from hotlap.core.sample import Sample
from hotlap.probe.results import attribute
from hotlap.record.what_if import EnvLayer

MOST_STEPS = 64  # of the outermost environments: watching their layers costs a quarter of a cheap environment's time
MOST_INPUTS = 64  # different modules and shapes whose inputs are kept
MOST_NUMBERS = 50_000_000  # of all inputs that are kept
LEARNING = stages.UPDATE
STAGES = {ACT: ACT, LEARNING: LOSS}  # in which the passes of a role lie
CONSTANTS = (bool, int, float, str, type(None))


class NotPlain(Exception):
    """An argument that is no tensor, number or container of these."""


@dataclass
class Pass:
    """Outermost calls of one module with inputs of one shape."""

    module: Callable[[], Any]  # None once it is gone
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    gradients: bool
    times: list[float] = field(default_factory=list)  # seconds of each call

    @property
    def seconds(self) -> float:
        return sum(self.times)

    @property
    def median(self) -> float:
        return median(self.times)


@dataclass
class Checks:
    """A class of distributions: one of its objects, and how many were made while watched."""

    example: Any
    calls: int = 0


@dataclass
class _Layer:
    """A step that is open."""

    env: int
    name: str
    inside: int = 0  # time of the steps inside it


@dataclass
class _Totals:
    is_vector: bool
    times: list[int] = field(default_factory=list)  # nanoseconds of each call, exclusive


@dataclass
class Watch:
    """The window that is watched."""

    passes: dict[str, list[Pass]] = field(default_factory=dict)  # by role: acting, learning
    distributions: dict[type, Checks] = field(default_factory=dict)
    outermost: set[type] = field(default_factory=set)  # classes of environments that stepped inside no other
    nested: set[type] = field(default_factory=set)  # and of those that did
    result: Any = None  # what the last step of an environment returned
    num_envs: int = 1  # in the environment that returned it
    env_steps: float = 0.0
    updates: float = 0.0
    backward: float = 0.0  # seconds per update, the median
    parts: dict[str, float] = field(default_factory=dict)  # by role: of the stage's time, what its passes took
    _inputs: dict[Any, Pass | None] = field(default_factory=dict)
    _numbers: int = 0  # in the inputs that are kept
    _when: list[tuple[int, int, Any]] = field(default_factory=list)
    _layers: dict[tuple[str, ...], _Totals] = field(default_factory=dict)  # by the names of the layers around it, and its own
    _open: list[_Layer] = field(default_factory=list)
    _steps: int = 0

    # -- what hooks call --

    def passed(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool, begin: int, end: int) -> None:
        with suppress(Exception):  # strange objects must never be the script's trouble
            key = (id(module), gradients, *map(_shape, args), *map(_shape, kwargs.values()))
            if key not in self._inputs:
                if len(self._inputs) >= MOST_INPUTS:
                    return
                self._numbers += sum(map(_numbers, (*args, *kwargs.values())))
                is_too_much = self._numbers > MOST_NUMBERS
                self._inputs[key] = None if is_too_much else _pass(module, args, kwargs, gradients)
            self._when.append((begin, end, key))

    def step(self, env: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The step of an environment or of one inside it."""
        if self._open and self._open[-1].env == id(env):  # the step that its class inherits
            return original(env, *args, **kwargs)
        layer = _Layer(id(env), type(env).__name__)
        (self.nested if self._open else self.outermost).add(type(env))
        self._open.append(layer)
        begin = perf_counter_ns()
        try:
            result = original(env, *args, **kwargs)
        finally:
            time = perf_counter_ns() - begin
            names = tuple([one.name for one in self._open])
            totals = self._layers.get(names)
            if totals is None:
                totals = self._layers[names] = _Totals(attribute(env, "num_envs") is not None)
            totals.times.append(time - layer.inside)
            self._open.pop()
            if self._open:
                self._open[-1].inside += time
        if not self._open:
            self._steps += 1
            number = attribute(env, "num_envs")
            self.result, self.num_envs = result, number if isinstance(number, int) else 1
        return result

    @property
    def wants_steps(self) -> bool:
        return self._steps < MOST_STEPS

    def made(self, distribution: Any) -> None:
        seen = self.distributions.get(type(distribution))
        if seen is None:
            seen = self.distributions[type(distribution)] = Checks(distribution)
        seen.calls += 1

    # -- when the window is over --

    def settle(self, sample: Sample, origin: int) -> None:
        """Each pass has the role that its time turned out to have."""
        self.env_steps, self.updates = sample.counts.get(ENV_STEPS, 0.0), sample.counts.get(UPDATES, 0.0)
        starts = [start for _, start, _ in sample.events]
        last = sample.events[-1][1] + sample.events[-1][2] if sample.events else 0
        found: defaultdict[str, dict[Any, Pass]] = defaultdict(dict)
        for begin, end, key in self._when:
            at = (begin + end) // 2 - origin
            place = bisect_right(starts, at) - 1
            path = sample.events[place][0] if place >= 0 and at <= last else ""
            kept, role = self._inputs[key], _role(path, at > last, bool(key[1]))
            if kept is None or role is None:
                continue
            one = found[role].setdefault(key, Pass(kept.module, kept.name, kept.args, kept.kwargs, kept.gradients))
            one.times.append((end - begin) * 1e-9)
        self.passes = {role: sorted(passes.values(), key=lambda one: -one.seconds) for role, passes in found.items()}
        self._when = []
        backward = [length * 1e-9 for path, _, length in sample.events if path == BACKWARD]
        self.backward = median(backward) * len(backward) / self.updates if backward and self.updates else 0.0
        self.parts = {
            role: min(1.0, sum(one.seconds for one in passes) * 1e9 / max(sample.exclusive.get(STAGES[role], 0), 1))
            for role, passes in self.passes.items()
        }

    def layers(self) -> tuple[EnvLayer, ...]:
        """The layers of what stepped most, from the outermost to the innermost."""
        steps: defaultdict[str, float] = defaultdict(float)
        for names, totals in self._layers.items():
            steps[names[0]] += sum(totals.times)
        outermost = max(steps, key=lambda name: steps[name], default=None)
        if outermost is None:
            return ()
        calls = len(self._layers[(outermost,)].times)
        chosen = sorted(((n, t) for n, t in self._layers.items() if n[0] == outermost), key=lambda layer: len(layer[0]))
        return tuple(
            EnvLayer(n[-1], len(t.times) / calls, median(t.times) * 1e-9 * len(t.times) / calls, t.is_vector) for n, t in chosen
        )


def _role(path: str, after_all: bool, gradients: bool) -> str | None:
    """Long windows have more spans than are kept: what comes after them and has gradients learns."""
    if path.startswith(ACT):
        return ACT
    return LEARNING if path.startswith(LEARNING) or (after_all and gradients) else None


def _shape(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(map(_shape, value))
    if isinstance(value, dict):
        return tuple(map(_shape, value.values()))
    return getattr(value, "shape", None), getattr(value, "dtype", None)


def _numbers(value: Any) -> int:
    """How many numbers an argument holds."""
    if isinstance(value, (tuple, list)):
        return sum(map(_numbers, value))
    if isinstance(value, dict):
        return sum(map(_numbers, value.values()))
    return int(value.numel()) if hasattr(value, "numel") else 0


def _pass(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool) -> Pass | None:
    """None if its arguments are no plain tensors."""
    torch = sys.modules["torch"]
    try:
        with torch.inference_mode(False), torch.no_grad():
            kept = tuple(map(_kept, args)), {name: _kept(value) for name, value in kwargs.items()}
    except NotPlain:
        return None
    return Pass(weakref.ref(module), type(module).__name__, *kept, gradients)


def _kept(value: Any) -> Any:
    """A copy of an argument, without its graph."""
    torch = sys.modules["torch"]
    if isinstance(value, CONSTANTS):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(map(_kept, value)) if type(value) in (tuple, list) else _refuse(value)
    if isinstance(value, dict) and type(value) is dict:
        return {key: _kept(item) for key, item in value.items()}
    if is_rows(value):
        copy = value.detach().clone()
        return copy.requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else copy
    return _refuse(value)


def is_rows(value: Any) -> bool:
    """A tensor, or a TensorDict: something with rows."""
    return isinstance(value, sys.modules["torch"].Tensor) or (hasattr(value, "batch_size") and hasattr(value, "numel"))


def _refuse(value: Any) -> Any:
    raise NotPlain(type(value).__name__)

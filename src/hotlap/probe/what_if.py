"""Measures what-if curves when a script is stopped: on copies of its own modules and optimizers, with its own inputs.

Nothing of the script's changes: it has its random numbers, parameters, gradients and optimizers as they were. All
measurements share a time limit; what fails is left out, and the record says why.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import get_ident
from typing import Any

from hotlap.core import machine
from hotlap.core.paths import ACT
from hotlap.probe.copies import copied, hidden_widths, narrow, narrowed, number_of_rows, with_rows, with_width
from hotlap.probe.optimizers import optimizer_curve, parameter_loop_curve
from hotlap.probe.payload import pipe_curve
from hotlap.probe.sequences import sequence_curve
from hotlap.probe.timing import Form, Stopwatch, TimeUp, TooLong
from hotlap.probe.watching import LEARNING, Pass, Watch
from hotlap.record.what_if import (
    CHECKED,
    DETECTING,
    GRADIENTS,
    NO_GRADIENTS,
    NOT_DETECTING,
    UNCHECKED,
    Change,
    CostCurve,
    WhatIfCurves,
)

PART = 0.07  # of the time limit: a curve of two forms; a longer one takes twice as long
MOST_ROWS = 4_096
TIMES = (1, 2, 4, 8, 16, 32)  # as many rows
NARROWER = (1, 2, 8)  # times
WIDE = 256  # units from which a layer is made narrower
MINOR = 0.05  # of a role's time: passes below this are left out

Measure = Callable[[], "CostCurve | None"]


def measured(watch: Watch, seconds: float, clock: Callable[[], float] = time.perf_counter) -> WhatIfCurves:
    """All curves that can be measured in so many seconds. Never raises."""
    torch = sys.modules.get("torch")
    stopwatch = Stopwatch(seconds, PART, clock)
    curves: list[CostCurve] = []
    skipped: dict[str, str] = {}
    with contextlib.suppress(TimeUp):  # what is measured until then is kept
        _measure(torch, _measurements(torch, watch, stopwatch), stopwatch, curves, skipped)
    return WhatIfCurves(tuple(curves), watch.layers(), skipped, stopwatch.spent)


def _measure(
    torch: Any,
    measurements: Sequence[tuple[Change, Measure]],
    stopwatch: Stopwatch,
    curves: list[CostCurve],
    skipped: dict[str, str],
) -> None:
    for change, measure in measurements:
        try:
            if stopwatch.left <= 0:
                raise TooLong
            with _unnoticed(torch):
                curve = measure()
        except Exception as error:  # noqa: PERF203 - the script's own code may fail on a copy in any way; the others go on
            skipped[change.value] = f"{type(error).__name__}: {error}"[:200]
        else:
            if curve is not None:
                curves.append(curve)


def _measurements(torch: Any, watch: Watch, stopwatch: Stopwatch) -> list[tuple[Change, Measure]]:
    """The most telling first: there may be no time for all."""
    pipe = (Change.PIPE, lambda: pipe_curve(watch.result, watch.num_envs, stopwatch))
    if torch is None:
        return [pipe]
    return [
        (Change.THREADS, lambda: _threads_curve(torch, watch, stopwatch)),
        (Change.ANOMALY, lambda: _anomaly_curve(torch, watch, stopwatch)),
        (Change.SEQUENCE, lambda: sequence_curve(torch, _chosen(watch, LEARNING), watch.updates, stopwatch)),
        (Change.LEARNING_ROWS, lambda: _rows_curve(torch, Change.LEARNING_ROWS, watch, stopwatch)),
        (Change.ACTING_ROWS, lambda: _rows_curve(torch, Change.ACTING_ROWS, watch, stopwatch)),
        (Change.GRADIENTS, lambda: _gradients_curve(torch, watch, stopwatch)),
        (Change.OPTIMIZER, lambda: optimizer_curve(torch, stopwatch)),
        (Change.LEARNING_WIDTH, lambda: _width_curve(torch, Change.LEARNING_WIDTH, watch, stopwatch)),
        (Change.ACTING_WIDTH, lambda: _width_curve(torch, Change.ACTING_WIDTH, watch, stopwatch)),
        (Change.PARAMETER_LOOP, lambda: parameter_loop_curve(torch, _modules(watch, LEARNING), stopwatch)),
        (Change.CHECKS, lambda: _checks_curve(torch, watch, stopwatch)),
        pipe,
    ]


@contextlib.contextmanager
def _unnoticed(torch: Any) -> Iterator[None]:
    """Random numbers go on afterwards as if nothing had been; what is printed goes nowhere."""
    numpy = sys.modules.get("numpy")
    state, numpy_state = random.getstate(), numpy.random.get_state() if numpy else None
    torch_state = torch.get_rng_state() if torch else None
    cuda_states = torch.cuda.get_rng_state_all() if torch and torch.cuda.is_initialized() else None
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(contextlib.redirect_stdout(_Muted(sys.stdout)))
            stack.enter_context(contextlib.redirect_stderr(_Muted(sys.stderr)))
            if torch:
                stack.enter_context(torch.inference_mode(False))
                stack.enter_context(torch.enable_grad())
            yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)


class _Muted(io.TextIOBase):
    """A stream that drops what this thread writes, and nobody else."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, get_ident()

    def write(self, text: str) -> int:
        return len(text) if get_ident() == self._thread else int(self._stream.write(text))

    def flush(self) -> None:
        self._stream.flush()


# -- networks --


class _Work:
    """The passes of a role on copies of their modules, one of each; where it learns, with their gradients."""

    def __init__(self, torch: Any, passes: Sequence[tuple[Pass, Any]], learns: bool) -> None:
        self._torch, self._passes, self._learns = torch, passes, learns
        self.waits = torch.cuda.is_initialized()

    def form(self, name: str, size: float, change: Callable[[Any], Any], gradients: bool | None = None) -> Form:
        """With arguments changed; with gradients as it was, or as given."""
        inputs = [
            (
                module,
                tuple(map(change, one.args)),
                {key: change(value) for key, value in one.kwargs.items()},
                one.gradients if gradients is None else gradients,
                [parameter for parameter in module.parameters() if parameter.requires_grad],
            )
            for one, module in self._passes
        ]
        return Form(name, size, lambda: self._run(inputs))

    def _run(self, inputs: Sequence[Any]) -> None:
        torch = self._torch
        for module, args, kwargs, gradients, parameters in inputs:
            with torch.set_grad_enabled(gradients):
                output = module(*map(_fresh, args), **kwargs)
            if gradients and self._learns:
                parts = [part.sum() for part in _tensors(torch, output) if part.requires_grad]
                given = [value for value in args if isinstance(value, torch.Tensor) and value.requires_grad]
                if parts:
                    torch.autograd.grad(sum(parts), [*parameters, *given], allow_unused=True)
        if self.waits:
            torch.cuda.synchronize()


def _fresh(value: Any) -> Any:
    """Modules of TensorDicts write into what they are given."""
    return value.clone(False) if hasattr(value, "batch_size") and hasattr(value, "numel") else value


def _tensors(torch: Any, value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in what a module returned."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif depth < 4:
        items = getattr(value, "values", None)
        inside = (
            value
            if isinstance(value, (tuple, list))
            else list(items())
            if callable(items)
            else vars(value).values()
            if hasattr(value, "__dict__")
            else ()
        )
        for item in inside:
            yield from _tensors(torch, item, depth + 1)


def _chosen(watch: Watch, role: str) -> list[Pass]:
    """The passes that a role's time went into, of each module the one that took most."""
    passes = watch.passes.get(role, [])
    total = sum(one.seconds for one in passes)
    best: dict[tuple[int, bool], Pass] = {}
    for one in passes:
        module = one.module()
        if module is not None and one.seconds >= MINOR * total:
            best.setdefault((id(module), one.gradients), one)
    return list(best.values())


def _modules(watch: Watch, *roles: str) -> list[Any]:
    modules = {id(module): module for role in roles for one in _chosen(watch, role) if (module := one.module()) is not None}
    return list(modules.values())


def _with_copies(passes: Sequence[Pass], copies: Callable[[list[Any]], list[Any]]) -> list[tuple[Pass, Any]]:
    """The passes with copies of their modules, one of each."""
    modules = {id(module): module for one in passes if (module := one.module()) is not None}
    made = dict(zip(modules, copies(list(modules.values()))))
    return [(one, made[id(module)]) for one in passes if (module := one.module()) is not None]


def _curve(change: Change, watch: Watch, role: str, passes: Sequence[Pass], costs: Any) -> CostCurve:
    names = list(dict.fromkeys(one.name for one in passes))
    seen, part = _seen(watch, role, passes), watch.parts[role]
    return CostCurve(change, " and ".join(names), costs, _calls(watch, role, passes), seen, part)


def _calls(watch: Watch, role: str, passes: Sequence[Pass]) -> float:
    """Per environment step, or per update."""
    return max(len(one.times) for one in passes) / max(watch.env_steps if role == ACT else watch.updates, 1.0)


def _seen(watch: Watch, role: str, passes: Sequence[Pass]) -> float:
    """Seconds that one pass of each took in the script, with the gradients of as much of an update."""
    backward = watch.backward / _calls(watch, role, passes) if role == LEARNING else 0.0
    return sum(one.median for one in passes) + backward


def _rows_curve(torch: Any, change: Change, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    role = ACT if change is Change.ACTING_ROWS else LEARNING
    passes = _chosen(watch, role)
    if not passes:
        return None
    rows = number_of_rows([*passes[0].args, *passes[0].kwargs.values()])
    passes = [one for one in passes if number_of_rows([*one.args, *one.kwargs.values()]) == rows]
    stopwatch.need(_seen(watch, role, passes))
    work = _Work(torch, _with_copies(passes, copied), role == LEARNING)
    forms = []
    for times in TIMES:
        wanted = rows * times
        if times == 1 or wanted <= MOST_ROWS:
            forms.append(work.form(f"{wanted} rows", wanted, partial(with_rows, rows=rows, wanted=wanted)))
    return _curve(change, watch, role, passes, stopwatch.costs(forms, 2, work.waits))


def _gradients_curve(torch: Any, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    passes = [one for one in _chosen(watch, ACT) if one.gradients]
    if not passes:
        return None
    work = _Work(torch, _with_copies(passes, copied), learns=False)
    forms = [work.form(name, 0.0, lambda v: v, on) for name, on in ((GRADIENTS, True), (NO_GRADIENTS, False))]
    return _curve(Change.GRADIENTS, watch, ACT, passes, stopwatch.costs(forms, 1, work.waits))


def _width_curve(torch: Any, change: Change, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    role = ACT if change is Change.ACTING_WIDTH else LEARNING
    passes = _chosen(watch, role)
    widths = hidden_widths(_modules(watch, ACT, LEARNING))
    if not passes or max(widths, default=0) < WIDE:
        return None
    stopwatch.need(_seen(watch, role, passes))
    forms = []
    for times in NARROWER:
        pairs = _with_copies(passes, copied if times == 1 else partial(narrowed, widths=widths, times=times))
        widest = narrow(max(widths), widths, times)
        work = _Work(torch, pairs, role == LEARNING)
        forms.append(work.form(f"{widest} units", widest, partial(with_width, widths=widths, times=times)))
    return _curve(change, watch, role, passes, stopwatch.costs(forms, 2, torch.cuda.is_initialized()))


# -- settings of torch --


def _threads_curve(torch: Any, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    """Learning with as many threads as now, with one for each core, and with one; None unless there are more now."""
    now, cores = torch.get_num_threads(), max(1, int(machine.usable_cores()))
    if now <= cores:
        return None

    def threads(number: int, work: Callable[[], Any]) -> Form:
        def run() -> None:
            torch.set_num_threads(number)
            work()

        return Form(f"{number} thread{'s' if number > 1 else ''}", number, run)

    numbers = (now, cores, 1) if cores > 1 else (now, 1)
    try:
        return _setting_curve(torch, Change.THREADS, watch, stopwatch, lambda run: [threads(n, run) for n in numbers])
    finally:
        torch.set_num_threads(now)


def _anomaly_curve(torch: Any, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    """Learning with autograd's debug mode, as it is now, and without; None if it is off."""
    if not torch.is_anomaly_enabled():
        return None

    checks_nan = getattr(torch, "is_anomaly_check_nan_enabled", None)  # not in old versions
    how = {"check_nan": checks_nan()} if checks_nan else {}

    def detecting(on: bool, work: Callable[[], Any]) -> Form:
        def run() -> None:
            with torch.autograd.set_detect_anomaly(on, **how):
                work()

        return Form(DETECTING if on else NOT_DETECTING, 0.0, run)

    return _setting_curve(torch, Change.ANOMALY, watch, stopwatch, lambda run: [detecting(True, run), detecting(False, run)])


def _setting_curve(
    torch: Any,
    change: Change,
    watch: Watch,
    stopwatch: Stopwatch,
    forms: Callable[[Callable[[], Any]], Sequence[Form]],
) -> CostCurve | None:
    """The passes that learn, under each setting of `forms`."""
    passes = _chosen(watch, LEARNING)
    if not passes:
        return None
    work = _Work(torch, _with_copies(passes, copied), learns=True)
    run = work.form("", 0.0, lambda value: value).run
    return _curve(change, watch, LEARNING, passes, stopwatch.costs(forms(run), 3, work.waits))


# -- distributions --


def _checks_curve(torch: Any, watch: Watch, stopwatch: Stopwatch) -> CostCurve | None:
    """The distribution that is made most often, made and asked for a log-probability."""
    for kind, checks in sorted(watch.distributions.items(), key=lambda item: -item[1].calls):
        names = [name for name in getattr(kind, "arg_constraints", ()) if name in vars(checks.example)]
        given = {name: vars(checks.example)[name].detach().clone() for name in names}
        if "logits" in given:
            given.pop("probs", None)
        if not given:
            continue
        sample = kind(**given).sample()

        def made(validate: bool, kind: Any = kind, given: Any = given, sample: Any = sample) -> Form:
            name = CHECKED if validate else UNCHECKED
            return Form(name, 0.0, lambda: kind(**given, validate_args=validate).log_prob(sample))

        costs = stopwatch.costs([made(True), made(False)], 1, torch.cuda.is_initialized())
        return CostCurve(Change.CHECKS, kind.__name__, costs, checks.calls / max(watch.env_steps, 1.0))
    return None

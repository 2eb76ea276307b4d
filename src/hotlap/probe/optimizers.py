"""What-if curves of optimizers and of loops over parameters, on copies of the script's own."""

from __future__ import annotations

import copy
import gc
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from hotlap.probe import core
from hotlap.probe.copies import MOST_PARAMETERS, CannotCopy
from hotlap.probe.hooks.patching import below
from hotlap.probe.timing import Form, Stopwatch
from hotlap.record.what_if import FOREACH, FUSED, LOOP, Change, CostCurve

TAU = 0.005


def optimizer_curve(torch: Any, stopwatch: Stopwatch) -> CostCurve | None:
    """The optimizer of most tensors: as it is, then the other ways in which torch can step it."""
    base = torch.optim.Optimizer
    kinds = tuple(kind for kind in (base, *below(base)) if kind.__module__.startswith("torch.optim"))
    alive = core.instances(gc.get_objects(), kinds)
    if not alive:
        return None
    optimizer = max(alive, key=_tensors)
    if sum(p.numel() for group in optimizer.param_groups for p in group["params"]) > MOST_PARAMETERS:
        raise CannotCopy("too many parameters")
    now = _switches(optimizer)
    forms = []
    for name, switches in (now, *((name, s) for name, s in _FORMS.items() if name != now[0])):
        made = _with_switches(torch, optimizer, switches)
        if made is not None:
            forms.append(Form(name, 0.0, _synchronised(torch, made.step)))
    costs = stopwatch.costs(forms, 1, torch.cuda.is_initialized())
    return CostCurve(Change.OPTIMIZER, f"{type(optimizer).__name__}, {_tensors(optimizer)} tensors", costs)


_FORMS = {
    LOOP: {"foreach": False, "fused": False},
    FOREACH: {"foreach": True, "fused": False},
    FUSED: {"foreach": False, "fused": True},
}


def _tensors(optimizer: Any) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)


def _switches(optimizer: Any) -> tuple[str, dict[str, bool]]:
    """How the optimizer steps now. Where it does not say, torch takes foreach on a GPU and a loop on the CPU."""
    group = optimizer.param_groups[0]
    if group.get("fused"):
        return FUSED, _FORMS[FUSED]
    on_gpu = any(p.is_cuda for p in group["params"])
    foreach = group.get("foreach")
    return (FOREACH, _FORMS[FOREACH]) if foreach or (foreach is None and on_gpu) else (LOOP, _FORMS[LOOP])


def _with_switches(torch: Any, optimizer: Any, switches: dict[str, bool]) -> Any:
    """A new optimizer of the same kind over copies of the parameters; None if its kind has no such switch."""
    known = inspect.signature(type(optimizer).__init__).parameters
    wanted = {name: value for name, value in switches.items() if value or name in known}
    if any(name not in known for name in wanted):
        return None
    defaults = {name: copy.copy(value) for name, value in optimizer.defaults.items() if name in known}
    parameters = []
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        own = parameter.detach().clone().requires_grad_(True)
        own.grad = torch.full_like(own, 1e-3)
        parameters.append(own)
    made = type(optimizer)(parameters, **{**defaults, **wanted})
    try:
        made.step()  # makes its state
    except RuntimeError:  # this kind has no such form for these tensors
        return None
    return made


def _synchronised(torch: Any, run: Callable[[], Any]) -> Callable[[], None]:
    """Until the GPU is through, if there is one at work."""

    def call() -> None:
        run()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    return call


def parameter_loop_curve(torch: Any, modules: Sequence[Any], stopwatch: Stopwatch) -> CostCurve | None:
    """Averaging two copies of the parameters: one by one, as it is mostly written, and all at once in two operations."""
    parameters = [parameter for module in modules for parameter in module.parameters()]
    if len(parameters) < 2 or not hasattr(torch, "_foreach_mul_"):
        return None
    if sum(parameter.numel() for parameter in parameters) > MOST_PARAMETERS:
        raise CannotCopy("too many parameters")
    source, target = ([parameter.detach().clone() for parameter in parameters] for _ in range(2))

    def one_by_one() -> None:
        for p, q in zip(source, target):
            q.data.copy_((1 - TAU) * q.data + TAU * p.data)

    def at_once() -> None:
        torch._foreach_mul_(target, 1 - TAU)
        torch._foreach_add_(target, source, alpha=TAU)

    forms = [Form(name, 0.0, _synchronised(torch, run)) for name, run in ((LOOP, one_by_one), (FOREACH, at_once))]
    return CostCurve(
        Change.PARAMETER_LOOP, f"{len(parameters)} tensors", stopwatch.costs(forms, 1, torch.cuda.is_initialized())
    )

"""The what-if curve of a recurrent network: the steps of a sequence one by one, or all at once, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hotlap.probe.copies import CannotCopy, copied, number_of_rows, with_rows
from hotlap.probe.timing import Form, Stopwatch
from hotlap.probe.watching import Pass
from hotlap.record.what_if import AT_ONCE, STEP_BY_STEP, Change, CostCurve

STEPS = 16  # of a sequence of unknown length
MOST_STEPS = 64
LAYERS_PART = 0.5  # of the loop over time, about, where what else it does was not measured
Layer = Callable[[], Any]  # computes, and returns a tensor


def sequence_curve(torch: Any, passes: Sequence[Pass], updates: float, stopwatch: Stopwatch) -> CostCurve | None:
    """Of the largest recurrent layer that learns, with the modules that are called as often; None if there is no such layer."""
    found = [(layer, one) for one in passes if (module := one.module()) is not None for layer in _recurrent(torch, module)]
    if not found:
        return None
    layer, its = max(found, key=lambda pair: sum(p.numel() for p in pair[0].parameters()))
    if getattr(layer, "bidirectional", False):
        return None
    is_itself = its.module() is layer  # else a module that has it is called, and what else that does is not known
    steps = min(max(round(len(its.times) / max(updates, 1.0)), 2), MOST_STEPS) if is_itself else STEPS
    inputs = torch.randn(steps, _rows(layer, its), layer.input_size).to(next(layer.parameters()))  # time first
    stepped, at_once = [_stepwise(torch, layer, inputs)], [_whole(torch, layer, inputs)]
    for one in passes if is_itself else ():
        module = one.module()
        if module is None or not one.gradients or _recurrent(torch, module) or 2 * len(one.times) < len(its.times):
            continue
        copy, rows = copied([module])[0], number_of_rows(one.args)
        together = tuple(with_rows(value, rows, rows * steps) for value in one.args)
        stepped += [partial(copy, *one.args)] * steps
        at_once.append(partial(copy, *together))
    forms = [Form(STEP_BY_STEP, 0.0, lambda: _learn(stepped)), Form(AT_ONCE, 0.0, lambda: _learn(at_once))]
    costs = stopwatch.costs(forms, 3, waits=inputs.is_cuda)
    return CostCurve(Change.SEQUENCE, f"{type(layer).__name__}, {steps} steps", costs, part=1.0 if is_itself else LAYERS_PART)


def _learn(layers: Sequence[Layer]) -> None:
    sum(layer().sum() for layer in layers).backward()


def _recurrent(torch: Any, module: Any) -> list[Any]:
    return [part for part in module.modules() if isinstance(part, (torch.nn.RNNBase, torch.nn.RNNCellBase))]


def _rows(layer: Any, one: Pass) -> int:
    """How many sequences are stepped together."""
    is_time_first = one.module() is layer and not getattr(layer, "batch_first", True)
    if is_time_first and one.args and one.args[0].ndim == 3:
        return int(one.args[0].shape[1])
    return number_of_rows([*one.args, *one.kwargs.values()])


def _whole(torch: Any, layer: Any, inputs: Any) -> Layer:
    """A layer that takes whole sequences."""
    if isinstance(layer, torch.nn.RNNCellBase):
        kind = getattr(torch.nn, type(layer).__name__.replace("Cell", ""), None)
        if kind is None:
            raise CannotCopy("a cell of an unknown kind")
        whole = kind(layer.input_size, layer.hidden_size, bias=layer.bias).to(next(layer.parameters()))
    else:
        whole = copied([layer])[0]
        whole.batch_first = False
    return lambda: whole(inputs)[0]


def _stepwise(torch: Any, layer: Any, inputs: Any) -> Layer:
    """What the script calls at each step."""
    step, is_cell = copied([layer])[0], isinstance(layer, torch.nn.RNNCellBase)
    step.batch_first = False

    def run() -> Any:
        state, outputs = None, []
        for now in inputs:
            if is_cell:
                state = step(now, state)
                output = state[0] if isinstance(state, tuple) else state
            else:
                output, state = step(now[None], state)
            outputs.append(output)
        return torch.stack(outputs)

    return run

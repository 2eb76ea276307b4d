"""Copies of a script's modules that can be run without it noticing, and their inputs with other numbers of rows.

A copy has its own parameters and buffers. What else a module holds on to (a replay buffer, an environment, a logger) is not
copied in depth: that could take minutes, or fail.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hotlap.probe.watching import is_rows

MOST_PARAMETERS = 50_000_000  # of all modules that are copied at once
LONGEST = 1_000  # items of a container that is copied in depth
NARROWEST = 64  # units below which no layer is made narrower

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
)


class CannotCopy(Exception):
    """Why these modules are not measured."""


def copied(modules: Sequence[Any]) -> list[Any]:
    """Copies that share parameters with each other where the modules do, and with the modules never."""
    torch = sys.modules["torch"]
    parts = [part for module in modules for part in module.modules()]
    if any(type(part).__name__ in ("OptimizedModule", "ScriptModule") or _is_compiled(part) for part in parts):
        raise CannotCopy("compiled modules would be compiled again")
    if sum(parameter.numel() for module in modules for parameter in module.parameters()) > MOST_PARAMETERS:
        raise CannotCopy("too many parameters")
    memo: dict[int, Any] = {}
    for part in parts:
        for value in vars(part).values():
            if id(value) not in memo and (stand_in := _stand_in(torch, value)) is not None:
                memo[id(value)] = stand_in
    copies: list[Any] = copy.deepcopy(list(modules), memo)
    for module in copies:
        for part in module.modules():
            for name in _HOOKS:  # the script's own hooks must not hear of this
                if getattr(part, name, None):
                    setattr(part, name, type(getattr(part, name))())
    return copies


def _is_compiled(part: Any) -> bool:
    return getattr(part, "_compiled_call_impl", None) is not None


def _stand_in(torch: Any, value: Any) -> Any:
    """What takes the place of something that a module refers to; None if it is copied in depth."""
    if isinstance(value, torch.Tensor):
        return None if value.is_leaf else value.detach().clone()
    if isinstance(value, (torch.nn.Module, str, bytes, int, float, type)) or value is None:
        return None
    if isinstance(value, (list, tuple, dict, set)):
        return value if len(value) > LONGEST else None
    if type(value).__module__.split(".")[0] in ("torch", "tensordict", "builtins", "collections"):
        return None
    try:
        return copy.copy(value)
    except Exception:
        return value


# -- rows --


def number_of_rows(args: Iterable[Any]) -> int:
    """Rows of the first argument that has any. A vector is one row without an axis for rows."""
    first = next((value for value in _parts(args) if is_rows(value)), None)
    if first is None or not first.shape:
        raise CannotCopy("no argument has rows")
    return 1 if len(first.shape) == 1 and first.is_floating_point() else int(first.shape[0])


def with_rows(value: Any, rows: int, wanted: int) -> Any:
    """An argument of `rows` rows with as many as wanted, by repeating them."""
    torch = sys.modules["torch"]
    if isinstance(value, (tuple, list)):
        return type(value)(with_rows(item, rows, wanted) for item in value)
    if isinstance(value, dict):
        return {key: with_rows(item, rows, wanted) for key, item in value.items()}
    if not is_rows(value) or rows == wanted or not value.shape:
        return value
    if rows == 1 and value.shape[0] != 1 and len(value.shape) == 1:
        value = value[None]
    if value.shape[0] != rows:
        raise CannotCopy("not all arguments have the same number of rows")
    index = torch.arange(wanted, device=value.device) % rows
    taken = value.detach()[index]
    return taken.requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else taken


def _parts(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _parts(value)
        elif isinstance(value, dict):
            yield from _parts(value.values())
        else:
            yield value


# -- width --


def hidden_widths(modules: Iterable[Any]) -> set[int]:
    """Widths that one linear layer puts out and another takes in; none if there are layers that are no plain ones."""
    torch = sys.modules["torch"]
    layers = [part for module in modules for part in module.modules() if not list(part.children()) and list(part.parameters())]
    linear = [layer for layer in layers if type(layer) is torch.nn.Linear]
    if len(linear) < 2 or any(not isinstance(layer, _plain(torch)) for layer in layers):
        return set()
    return {layer.out_features for layer in linear} & {layer.in_features for layer in linear}


def narrowed(modules: Sequence[Any], widths: set[int], times: int) -> list[Any]:
    """Copies whose hidden layers are so many times narrower."""
    torch = sys.modules["torch"]
    copies = copied(modules)
    replaced: dict[int, Any] = {}
    for module in [part for one in copies for part in one.modules()]:
        for name, child in list(module.named_children()):
            if id(child) not in replaced:
                replaced[id(child)] = _narrowed_layer(torch, child, lambda width: narrow(width, widths, times)) or child
            setattr(module, name, replaced[id(child)])
    return [_narrowed_layer(torch, one, lambda width: narrow(width, widths, times)) or one for one in copies]


def narrow(width: int, widths: set[int], times: int) -> int:
    return max(width // times, min(width, NARROWEST)) if width in widths else width


def _plain(torch: Any) -> Any:
    return torch.nn.Linear, torch.nn.LayerNorm, torch.nn.BatchNorm1d


def _narrowed_layer(torch: Any, layer: Any, new: Callable[[int], int]) -> Any:
    """A plain layer, narrower; None if it is something else."""
    like = {"device": layer.weight.device, "dtype": layer.weight.dtype} if isinstance(layer, _plain(torch)) else {}
    if type(layer) is torch.nn.Linear:
        return torch.nn.Linear(new(layer.in_features), new(layer.out_features), layer.bias is not None, **like)
    if isinstance(layer, torch.nn.LayerNorm) and len(layer.normalized_shape) == 1:
        return torch.nn.LayerNorm(new(layer.normalized_shape[0]), layer.eps, layer.elementwise_affine, **like)
    if isinstance(layer, torch.nn.BatchNorm1d):
        return torch.nn.BatchNorm1d(new(layer.num_features), **like).train(layer.training)
    return None


def with_width(value: Any, widths: set[int], times: int) -> Any:
    """An argument that comes from a hidden layer, as that layer would put it out."""
    torch = sys.modules["torch"]
    if not isinstance(value, torch.Tensor) or not value.shape or value.shape[-1] not in widths:
        return value
    return value.detach()[..., : narrow(value.shape[-1], widths, times)].clone().requires_grad_(value.requires_grad)

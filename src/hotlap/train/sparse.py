"""The first layer of a network of sparse observations: a linear layer that sums the rows of its weights where there are ones.

An observation of Hearts has some hundred ones among five thousand places, so this is fifty times less to compute than the dense
layer that it equals, in value and in gradient, by test. In C on a CPU, by torch elsewhere.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hotlap.core import native

_INDEX = {torch.int16: "int16_t", torch.int32: "int32_t"}


class SparseLinear(nn.Module):
    """Rows of indices [B, 1 + most] (see `EnvSpec.sparse`) to [B, outputs]; its weights are those of `nn.Linear`, transposed.

    `positions`: a row is that many observations of `inputs` places one after another, its indices in ascending order, and the
    result [B, positions, outputs]; indices beyond them are left out.
    """

    def __init__(self, inputs: int, outputs: int, positions: int = 0) -> None:
        super().__init__()
        self.positions = positions
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        for parameter in (self.weight, self.bias):  # as nn.Linear does
            nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5)

    def forward(self, rows: Tensor) -> Tensor:
        sums = sum_rows(rows, self.weight, max(1, self.positions)) + self.bias
        return sums if self.positions else sums[:, 0]


def sum_rows(rows: Tensor, weight: Tensor, positions: int = 1) -> Tensor:
    """Sums of rows of the weights [inputs, outputs]: [B, positions, outputs]."""
    if _library(rows, weight) is None or torch.compiler.is_compiling():
        return sum_rows_in_torch(rows, weight, positions)
    sums: Tensor = _SumRows.apply(rows, weight, positions)  # type: ignore[no-untyped-call]
    return sums


class _SumRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, positions: int) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = weight.shape
        sums = torch.zeros(len(rows), positions, weight.shape[1])
        add_sums(rows, weight, sums)
        return sums

    @staticmethod
    def backward(ctx: Any, to_sums: Tensor) -> tuple[None, Tensor, None]:
        gradient = torch.zeros(ctx.shape)
        (rows,) = ctx.saved_tensors
        add_gradient(rows, to_sums, gradient)
        return None, gradient, None


FEW_ZEROS = 1 << 26  # numbers of the dense observations that a GPU multiplies faster than it looks up what is not zero


def sum_rows_in_torch(rows: Tensor, weight: Tensor, positions: int = 1) -> Tensor:
    """The specification of `hotlap_sum_rows`; autograd knows its gradient."""
    period, ones = len(weight), rows[:, 1:].long()
    if rows.is_cuda and len(rows) * positions * period <= FEW_ZEROS:
        dense = torch.zeros(len(rows), positions * period + 1, dtype=weight.dtype, device=rows.device)
        dense.scatter_(1, ones.clamp(max=positions * period), 1.0)  # unused places hold more than any index: one more column
        return dense[:, :-1].reshape(len(rows), positions, period) @ weight
    most = ones.shape[1]
    counted = (torch.arange(most, device=rows.device) < rows[:, :1]) & (ones < positions * period)
    edges = torch.arange(positions, device=rows.device).mul(period).expand(len(rows), -1).contiguous()
    begin = torch.searchsorted(ones, edges) if positions > 1 else torch.zeros_like(edges)
    begin = begin + torch.arange(len(rows), device=rows.device)[:, None] * most
    sums = F.embedding_bag(
        (ones % period).flatten(), weight, begin.flatten(), mode="sum", per_sample_weights=counted.flatten().to(weight.dtype)
    )
    return sums.view(len(rows), positions, -1)


def add_sums(rows: Tensor, weight: Tensor, sums: Tensor) -> None:
    """Add sums of rows of the weights [inputs, outputs] to `sums` [B, positions, outputs]."""
    library = _library(rows, weight)
    if library is None:
        sums += sum_rows_in_torch(rows, weight, sums.shape[1])
    else:
        _call(library.hotlap_sum_rows, rows, len(weight), sums.shape[1], weight, sums)


def add_gradient(rows: Tensor, to_sums: Tensor, gradient: Tensor) -> None:
    """Add the gradient of the weights [inputs, outputs], from that of the sums [B, positions, outputs]."""
    library = _library(rows, gradient)
    if library is None:
        weight = torch.zeros_like(gradient, requires_grad=True)
        with torch.enable_grad():
            sums = sum_rows_in_torch(rows, weight, to_sums.shape[1])
        gradient += torch.autograd.grad(sums, weight, to_sums)[0]
    else:
        _call(library.hotlap_add_rows, rows, len(gradient), to_sums.shape[1], to_sums, gradient)


def _call(function: Any, rows: Tensor, period: int, positions: int, given: Tensor, result: Tensor) -> None:
    rows, given = rows.contiguous(), given.contiguous()
    assert result.is_contiguous()
    function(rows.data_ptr(), *rows.shape, period, positions, given.data_ptr(), given.shape[-1], result.data_ptr())


def _library(rows: Tensor, weight: Tensor) -> Any:
    fits = rows.dtype in _INDEX and weight.dtype == torch.float32 and not weight.is_cuda
    return _native(_INDEX[rows.dtype]) if fits else None


@cache
def _native(index: str) -> Any:
    library = native.optional("sparse", Path(__file__).with_name("sparse.c"), (*native.EXACT, f"-DIndex={index}"))
    if library is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        for function in (library.hotlap_sum_rows, library.hotlap_add_rows):
            function.argtypes, function.restype = [pointer, *[size] * 4, pointer, size, pointer], None
    return library

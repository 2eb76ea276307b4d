"""Convolutions over windows of cells that are observed as tokens: three bytes each, a location, a feature and a value.

`Box` scatters tokens into the planes of a window, for `nn.Conv2d`. `TokenConv2d` is that convolution from the tokens alone, in
C (tokens.c) where a compiler is at hand and all is on the CPU: a window holds tens of tokens, where its box has thousands of
numbers, nearly all of them zeros. Both give the same; layers and parameters have the same names.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.core import native
from hotlap.train.encoders import Encoder
from hotlap.train.fast import Lanes

T = TypeVar("T")

MIDDLE, EMPTY = 0xFE, 0xFF  # locations: what belongs to no cell, shown in the middle; no token
VALUES = 256
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared")
_OUTPUTS = 64  # as in tokens.c
_ROWS_OF_LANE = 256  # below which a second thread costs more than it does


class Planes:
    """Which plane of the box a feature of some value is in, and the number that stands there.

    `most` is the largest value of each feature, by which it is divided; features in `categories` have a plane for each value
    instead.
    """

    def __init__(self, most: Sequence[float], categories: Sequence[int] = ()) -> None:
        self.features = len(most)
        plane = np.full((self.features, VALUES), -1, np.int16)
        self.amount: NDArray[np.float32] = np.zeros((self.features, VALUES), np.float32)
        self.count = 0
        for feature, largest in enumerate(most):
            if feature in categories:
                values = int(largest) + 1
                plane[feature, :values] = self.count + np.arange(values)
                self.amount[feature, :values] = 1.0
                self.count += values
            else:
                plane[feature] = self.count
                self.amount[feature] = np.arange(VALUES) / largest
                self.count += 1
        self.plane: NDArray[np.int16] = plane


class Box(nn.Module):
    """Tokens [batch, most, 3] as windows [batch, planes, side, side]."""

    plane: Tensor
    amount: Tensor

    def __init__(self, planes: Planes, side: int) -> None:
        super().__init__()
        self.planes, self.side, self.features = planes.count, side, planes.features
        self.register_buffer("plane", torch.from_numpy(planes.plane.astype(np.int64)).flatten(), persistent=False)
        self.register_buffer("amount", torch.from_numpy(planes.amount).flatten(), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        if not tokens.is_cuda and not torch.compiler.is_compiling():  # those that no row uses come last
            tokens = tokens[:, : int((tokens[..., 0] != EMPTY).any(0).sum())]
        location, feature, value = tokens.to(torch.int64).unbind(-1)
        middle = self.side // 2
        location = torch.where(location == MIDDLE, middle << 4 | middle, location)
        row, column = location >> 4, location & 15
        known = feature < self.features
        key = torch.where(known, feature, 0) * VALUES + value
        plane, cells = self.plane[key], self.side * self.side
        shown = known & (plane >= 0) & (row < self.side) & (column < self.side)
        nowhere = self.planes * cells  # one more column, which is left out
        index = torch.where(shown, plane * cells + row * self.side + column, nowhere)
        box = torch.zeros(len(tokens), nowhere + 1, device=tokens.device)
        box.scatter_add_(1, index, self.amount[key])
        return box[:, :-1].view(-1, self.planes, self.side, self.side)


class TokenConv2d(nn.Conv2d):
    """A convolution of what `Box` makes of tokens, without making it where that is possible. Its results are channels last."""

    def __init__(self, planes: Planes, side: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__(planes.count, outputs, kernel, stride)
        self.places = (side - kernel) // stride + 1
        self.box = Box(planes, side)
        self._tables = planes.plane, planes.amount  # kept: C reads them
        self._shape = planes.features, planes.count, side, kernel, stride, self.places, outputs

    def forward(self, tokens: Tensor) -> Tensor:
        if not self._by_tokens(tokens):
            return super().forward(self.box(tokens))
        assert self.bias is not None
        weight = self.weight.permute(2, 3, 1, 0).flatten(0, 1)  # [kernel * kernel, planes, outputs]
        out: Tensor = _Convolve.apply(tokens.contiguous(), weight, self.bias, self)  # type: ignore[no-untyped-call]
        return out.view(-1, self.places, self.places, self.out_channels).permute(0, 3, 1, 2)

    def _by_tokens(self, tokens: Tensor) -> bool:
        plain = tokens.dtype == torch.uint8 and not tokens.is_cuda and self.out_channels % _OUTPUTS == 0
        traced = torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
        return plain and not traced and _library() is not None

    def shape_of(self, tokens: Tensor) -> "_Shape":
        plane, amount = self._tables
        return _Shape(tokens.shape[1], *self._shape, plane.ctypes.data, amount.ctypes.data)


class _Convolve(torch.autograd.Function):
    """tokens.c, rows split over threads."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, bias: Tensor, layer: TokenConv2d) -> Tensor:
        weight, places = weight.contiguous(), layer.places**2
        out = bias.detach().expand(len(tokens), places, -1).contiguous()
        shape = layer.shape_of(tokens)

        def convolve(rows: slice) -> None:
            count = rows.stop - rows.start
            _library().hotlap_convolve_tokens(shape, tokens[rows].data_ptr(), count, weight.data_ptr(), out[rows].data_ptr())

        _over_rows(convolve, len(tokens))
        ctx.save_for_backward(tokens)
        ctx.layer, ctx.weight_shape = layer, weight.shape
        return out

    @staticmethod
    def backward(ctx: Any, to_out: Tensor) -> tuple[None, Tensor, Tensor, None]:
        (tokens,) = ctx.saved_tensors
        to_out, shape = to_out.contiguous(), ctx.layer.shape_of(tokens)

        def gradient_of(rows: slice) -> Tensor:
            gradient, count = torch.zeros(ctx.weight_shape), rows.stop - rows.start
            _library().hotlap_token_gradient(
                shape, tokens[rows].data_ptr(), count, gradient.data_ptr(), to_out[rows].data_ptr()
            )
            return gradient

        parts = _over_rows(gradient_of, len(tokens))
        return None, sum(parts[1:], start=parts[0]), to_out.sum((0, 1)), None


_SIZES = ("most", "features", "planes", "side", "kernel", "stride", "places", "outputs")


class _Shape(ctypes.Structure):
    """tokens.c's struct Shape."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _SIZES),
        ("plane", ctypes.c_void_p),
        ("amount", ctypes.c_void_p),
    ]


@cache
def _library() -> Any:
    library = native.optional("tokens", Path(__file__).with_name("tokens.c"), _FLAGS)
    if library is not None:
        pointer = ctypes.c_void_p
        for function in (library.hotlap_convolve_tokens, library.hotlap_token_gradient):
            function.argtypes = [ctypes.POINTER(_Shape), pointer, ctypes.c_int64, pointer, pointer]
            function.restype = None
    return library


@cache
def _lanes(count: int) -> Lanes:
    return Lanes(count)


def _over_rows(job: Callable[[slice], T], rows: int) -> list[T]:
    """The results of a job on parts of the rows, one for each of torch's threads."""
    lanes = _lanes(torch.get_num_threads() if rows >= 2 * _ROWS_OF_LANE else 1)
    return lanes.run([partial(job, part) for part in lanes.split(rows)])


class WindowEncoder(Encoder):
    """Tokens of a window to features: two convolutions, 5 x 5 by steps of 3, then 3 x 3.

    `sparse`: the first from the tokens alone; else from the box that they stand for.
    """

    def __init__(self, planes: Planes, side: int, channels: int = 64, sparse: bool = True) -> None:
        super().__init__()
        first: nn.Conv2d
        if sparse:
            self.box: nn.Module = nn.Identity()
            first = TokenConv2d(planes, side, channels, 5, 3)
        else:
            self.box, first = Box(planes, side), nn.Conv2d(planes.count, channels, 5, 3)
        self.first, self.second = first, WholeConv2d(channels, channels, 3)
        left = (side - 5) // 3 - 1
        self.features = channels * left * left

    def forward(self, obs: Tensor) -> Tensor:
        x = self.first(self.box(obs)).relu()
        return self.second(x).relu().flatten(1)  # type: ignore[no-any-return]


class WholeConv2d(nn.Conv2d):
    """A convolution that is one matrix product where its kernel covers all of the input."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2:] != self.kernel_size:
            return super().forward(x)
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # channels last
        product = torch.nn.functional.linear(x.permute(0, 2, 3, 1).flatten(1), weight, self.bias)
        return product[:, :, None, None]

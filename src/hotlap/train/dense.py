"""Fully connected layers by hand: forward, backward, and acting for a few rows in one C call (act.c).

On small networks autograd takes several times longer than the arithmetic. Here a layer is views of the flat parameters and of
their gradient (see `flat`), and a pass is a handful of plain operations.
"""

import ctypes
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hotlap.core import native
from hotlap.train.fast import half_tanh_
from hotlap.train.nets import Policy
from hotlap.train.sparse import SparseLinear, add_gradient, add_sums

WIDEST = 1024  # layer that act.c has room for
FEW_ROWS = 64  # above which products of matrices are faster
_tanh_backward = torch.ops.aten.tanh_backward.default
_relu_backward = torch.ops.aten.threshold_backward.default


class Layer:
    """A linear layer: its weights, and where its gradients go."""

    __slots__ = ("bias", "bias_grad", "transposed", "weight", "weight_grad")

    def __init__(self, linear: nn.Linear, gradient: dict[Tensor, Tensor]) -> None:
        self.weight, self.bias = linear.weight.detach(), linear.bias.detach()
        self.transposed = self.weight.t()
        self.weight_grad, self.bias_grad = gradient[linear.weight], gradient[linear.bias]

    def forward(self, x: Tensor, times: int = 1) -> Tensor:
        return torch.addmm(self.bias, x, self.transposed, beta=times, alpha=times)

    def backward(self, gradient: Tensor, x: Tensor) -> None:
        torch.mm(gradient.t(), x, out=self.weight_grad)
        torch.sum(gradient, 0, out=self.bias_grad)

    def add_backward(self, gradient: Tensor, x: Tensor) -> None:
        self.weight_grad.addmm_(gradient.t(), x)
        self.bias_grad.add_(gradient.sum(0))


class SparseLayer:
    """The first layer, of sparse observations: sums of rows of its weights."""

    def __init__(self, linear: SparseLinear, gradient: dict[Tensor, Tensor]) -> None:
        self.weight, self.bias = linear.weight.detach(), linear.bias.detach()
        self.weight_grad, self.bias_grad = gradient[linear.weight], gradient[linear.bias]

    def forward(self, rows: Tensor, times: int = 1) -> Tensor:
        sums = self.bias.repeat(len(rows), 1)
        add_sums(rows, self.weight, sums[:, None])
        return sums if times == 1 else sums.mul_(times)

    def backward(self, gradient: Tensor, rows: Tensor) -> None:
        self.weight_grad.zero_()
        self.bias_grad.zero_()
        self.add_backward(gradient, rows)

    def add_backward(self, gradient: Tensor, rows: Tensor) -> None:
        add_gradient(rows, gradient[:, None], self.weight_grad)
        self.bias_grad.add_(gradient.sum(0))


AnyLayer = Layer | SparseLayer


def run_layers(layers: list[AnyLayer], x: Tensor, tanh: bool) -> list[Tensor]:
    """What each layer sees, and the output of the last."""
    seen = [x]
    for layer in layers:
        if not tanh:
            x = layer.forward(x).relu_()
        elif layer.bias.is_cuda:
            x = layer.forward(x).tanh_()
        else:
            x = half_tanh_(layer.forward(x, 2))
        seen.append(x)
    return seen


def back_through(
    layers: list[AnyLayer], seen: list[Tensor], gradient: Tensor, tanh: bool
) -> Iterator[tuple[int, AnyLayer, Tensor]]:
    """From the last layer to the first: its number, itself and the gradient of what it gives."""
    for number in range(len(layers) - 1, -1, -1):
        out = seen[number + 1]
        gradient = _tanh_backward(gradient, out) if tanh else _relu_backward(gradient, out, 0)
        yield number, layers[number], gradient
        if number:
            gradient = gradient.mm(layers[number].weight)


def computes(net: Policy) -> bool:
    """Whether all of its layers are known here: linear ones, each but the heads with an activation after it, of one kind."""
    trunks = [trunk for trunk in (net.actor, net.critic) if trunk is not None]
    activations = {type(module) for trunk in trunks for module in list(trunk)[1::2]}
    return (
        activations in ({nn.Tanh}, {nn.ReLU})
        and all(type(trunk) is nn.Sequential and len(trunk) % 2 == 0 for trunk in trunks)
        and all(_is_known(module, first=i == 0) for trunk in trunks for i, module in enumerate(list(trunk)[::2]))
        and all(_is_known(head) for head in (net.action, net.value))
    )


def _is_known(module: nn.Module, first: bool = False) -> bool:
    """Not a subclass, which may use its parameters otherwise."""
    if type(module) is SparseLinear:
        return first and not module.positions
    return type(module) is nn.Linear and module.bias is not None


def layers_of(trunk: nn.Sequential, places: dict[Tensor, Tensor]) -> list[AnyLayer]:
    kinds: dict[type[nn.Module], Any] = {nn.Linear: Layer, SparseLinear: SparseLayer}
    return [kinds[type(module)](module, places) for module in trunk if type(module) in kinds]


class ActorKernel:
    """Acting for a few rows in one call (act.c): there, a torch operation's overhead exceeds its arithmetic."""

    def __init__(self, library: Any, layers: list[Layer], tanh: bool, inputs: int) -> None:
        numbers = [(len(layer.bias), layer.weight.data_ptr(), layer.bias.data_ptr()) for layer in layers]
        self._layers = (ctypes.c_int64 * (3 * len(layers)))(*(number for layer in numbers for number in layer))
        self._kept = layers  # whose memory is pointed to
        self._call = partial(library.hotlap_act, ctypes.addressof(self._layers), len(layers), int(tanh))
        self._inputs = inputs

    def act(self, obs: Tensor, mask: Tensor | None, draw: Tensor, action: Tensor) -> None:
        """Fill in the actions [rows] from draws [rows] between 0 and 1; all tensors are contiguous."""
        legal = None if mask is None else mask.data_ptr()
        self._call(obs.data_ptr(), self._inputs, legal, draw.data_ptr(), action.data_ptr(), len(action))


@cache
def actor_library() -> Any:
    library = native.optional("act", Path(__file__).with_name("act.c"), native.REASSOCIATED)
    if library is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        library.hotlap_act.argtypes = [pointer, size, size, pointer, size, pointer, pointer, pointer, size]
        library.hotlap_act.restype = None
    return library

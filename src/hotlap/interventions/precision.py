"""The precision of numbers: single instead of double, mixed, TF32."""

from __future__ import annotations

from functools import wraps
from typing import Any

from hotlap.interventions.changing import Change, nothing

_MAKERS = (
    *(
        "arange",
        "as_tensor",
        "asarray",
        "empty",
        "empty_like",
        "eye",
        "from_numpy",
        "full",
        "full_like",
        "linspace",
        "logspace",
    ),
    *("ones", "ones_like", "rand", "rand_like", "randn", "randn_like", "scalar_tensor", "tensor", "zeros", "zeros_like"),
)
_MAKERS_OF_TENSORS = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")


def matmul(change: Change, precision: str = "high") -> None:
    """Matrix products in this precision, whatever the script says."""

    def patch(torch: Any) -> None:
        change.on_undo(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision(precision)
        change.set(torch, "set_float32_matmul_precision", nothing)
        change.applied()

    change.when_imported("torch", patch)


def autocast(change: Change, device: str = "cuda") -> None:
    """Forward passes in mixed precision."""

    def patch(torch: Any) -> None:
        original = torch.nn.Module.__call__

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device):
                return original(self, *args, **kwargs)

        change.replace(torch.nn.Module, "__call__", call)

    change.when_imported("torch", patch)


def float32(change: Change) -> None:
    """Tensors of single precision where the script asks torch for doubles.

    Covered: the default dtype; `double()`, `to` and `type` of tensors and modules; functions that make tensors (`torch.zeros`,
    `torch.tensor`, `new_zeros`, ...) with a dtype or from a float64 array; `from_numpy`; `torch.DoubleTensor`. Not covered: the
    `dtype` argument of operations (`x.sum(dtype=torch.float64)`), tensors that are read from files, and arrays of numpy.
    `torch.float64` itself stays what it is: dtypes are also looked up and compared.
    """
    change.when_imported("torch", lambda torch: _Singles(change, torch).patch())


class _Singles:
    """torch with everything that makes doubles replaced."""

    def __init__(self, change: Change, torch: Any) -> None:
        self.change = change
        self.torch = torch
        self.double, self.single = torch.float64, torch.float32

    def patch(self) -> None:
        torch, change = self.torch, self.change
        if torch.get_default_dtype() is self.double:
            change.applied()
            change.on_undo(torch.set_default_dtype, self.double)
            torch.set_default_dtype(self.single)
        for name in ("set_default_dtype", "set_default_tensor_type"):
            change.set(torch, name, self.converted(getattr(torch, name)))
        for name in _MAKERS:
            change.set(torch, name, self.made(getattr(torch, name)))
        for name in _MAKERS_OF_TENSORS:
            change.set(torch.Tensor, name, self.made(getattr(torch.Tensor, name)))
        for kind in (torch.Tensor, torch.nn.Module):
            change.replace(kind, "double", lambda self: self.float())
            for name in ("to", "type"):
                change.set(kind, name, self.converted(getattr(kind, name)))
        change.set(torch, "DoubleTensor", torch.FloatTensor)

    def converted(self, original: Any) -> Any:
        """A function that is given single precision where it was to be given double."""

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            args = tuple(self.argument(value) for value in args)
            return original(*args, **{name: self.argument(value) for name, value in kwargs.items()})

        return call

    def argument(self, value: Any) -> Any:
        if value is self.double or (isinstance(value, str) and value in ("torch.DoubleTensor", "torch.cuda.DoubleTensor")):
            self.change.applied()
            return self.single if value is self.double else value.replace("Double", "Float")
        return value

    def made(self, original: Any) -> Any:
        """A function whose new tensors are never doubles."""
        converted = self.converted(original)

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            tensor = converted(*args, **kwargs)
            if tensor.dtype is not self.double or kwargs.get("out") is not None:
                return tensor
            self.change.applied()
            if tensor.grad_fn is not None:  # as_tensor of a tensor of the graph
                return tensor.float()
            return tensor.detach().float().requires_grad_(tensor.requires_grad)

        return call

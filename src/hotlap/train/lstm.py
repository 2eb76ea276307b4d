"""A step of LSTM cells and its gradient, by hand: in C (lstm.c) where a compiler is at hand, else in torch.

Gates lie in the order of `nn.LSTMCell`: in, forget, new, out. All tensors are contiguous float32 on the CPU.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap.core import native
from hotlap.train.fast import MINUS_ONE, half_tanh_

_SOURCE = Path(__file__).with_name("lstm.c")
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
_through_tanh = torch.ops.aten.tanh_backward.grad_input
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input


def ready(weight: Tensor, units: int) -> Tensor:
    """Weights or biases of the gates as `step` wants them: twice as large for what is new."""
    prepared = weight.detach().clone()
    prepared[2 * units : 3 * units] *= 2
    return prepared


def step(gates: Tensor, c: Tensor, seen: Tensor, out: Tensor) -> Tensor:
    """The new cells, from gates [batch, 4 units] that are opened in place, and the old ones.

    Fills `seen`, through which the new cells are seen, and the output.
    """
    library = _library()
    if library is None:
        return step_in_torch(gates, c, seen, out)
    fresh = torch.empty_like(c)
    library.hotlap_lstm_step(*(part.data_ptr() for part in (gates, c, seen, out, fresh)), *c.shape)
    return fresh


def back(gates: Tensor, c: Tensor, seen: Tensor, to_out: Tensor, to_c: Tensor, to_gates: Tensor) -> None:
    """The gradient of a step: from those of its output and of its new cells to those of its gates and (in place) old cells."""
    library = _library()
    if library is None:
        back_in_torch(gates, c, seen, to_out, to_c, to_gates)
    else:
        library.hotlap_lstm_back(*(part.data_ptr() for part in (gates, c, seen, to_out, to_c, to_gates)), *c.shape)


def step_in_torch(gates: Tensor, c: Tensor, seen: Tensor, out: Tensor) -> Tensor:
    """The specification of `hotlap_lstm_step`."""
    enter, forget, new, leave = torch.split(gates.sigmoid_(), c.shape[1], 1)
    torch.add(MINUS_ONE, new, alpha=2, out=new)
    fresh = (forget * c).addcmul_(enter, new)
    half_tanh_(torch.add(fresh, fresh, out=seen))
    torch.mul(leave, seen, out=out)
    return fresh


def back_in_torch(gates: Tensor, c: Tensor, seen: Tensor, to_out: Tensor, to_c: Tensor, to_gates: Tensor) -> None:
    """The specification of `hotlap_lstm_back`."""
    units = c.shape[1]
    enter, forget, new, leave = torch.split(gates, units, 1)
    to_enter, to_forget, to_new, to_leave = torch.split(to_gates, units, 1)
    through = to_out * leave
    to_c.add_(_through_tanh(through, seen, grad_input=through))
    _through_sigmoid(torch.mul(to_out, seen, out=through), leave, grad_input=to_leave)
    _through_sigmoid(torch.mul(to_c, new, out=through), enter, grad_input=to_enter)
    _through_sigmoid(torch.mul(to_c, c, out=through), forget, grad_input=to_forget)
    _through_tanh(torch.mul(to_c, enter, out=through), new, grad_input=to_new)
    to_c.mul_(forget)


@cache
def _library() -> Any:
    library = native.optional("lstm", _SOURCE, _FLAGS)
    if library is not None:
        pointers, sizes = [ctypes.c_void_p], [ctypes.c_int64] * 2
        library.hotlap_lstm_step.argtypes, library.hotlap_lstm_step.restype = [*pointers * 5, *sizes], None
        library.hotlap_lstm_back.argtypes, library.hotlap_lstm_back.restype = [*pointers * 6, *sizes], None
    return library

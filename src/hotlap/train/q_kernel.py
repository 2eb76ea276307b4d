"""Q-learning with a small dense network in C (q.c): a step of acting, of the loss, of its gradient and of Adam is one call.

On small networks autograd and torch's operations take many times longer than the arithmetic. The specification is `td`.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from hotlap.core import native
from hotlap.envs.spec import EnvSpec
from hotlap.train.encoders import Flatten, Sparse
from hotlap.train.flat import Adam
from hotlap.train.nets import QNet
from hotlap.train.replay import Batch

MOST_LAYERS = 16  # as in q.c
WIDEST = 256  # layer; wider ones do not stay in the cache, and torch computes them as fast
OBS_KINDS = {"<f4": 0, "|u1": 1, "|b1": 1}  # as in q.c
SPARSE_KINDS = {"<i2": 2, "<i4": 3}


class QKernel:
    """Actor and gradient of a dense network: its parameters, those of the target network and the gradient are flat vectors."""

    modules: dict[str, nn.Module] = {}

    def __init__(self, net: QNet, spec: EnvSpec, flat: nn.Parameter, target: Tensor, double: bool) -> None:
        assert flat.grad is not None
        self._kept = flat, target  # whose memory is pointed to
        self._flat, self._target, self._gradient = flat.data_ptr(), target.data_ptr(), flat.grad.data_ptr()
        self._double = int(double)
        self._library = q_library()
        self._struct = _struct_of(net, spec, flat)
        self._net = ctypes.addressof(self._struct)
        self._batch = (ctypes.c_int64 * 7)()  # q.c's struct Batch
        self._act_rows = self._rows = 0
        self._total, self._count = 0.0, 0

    def act(self, obs: Tensor, mask: Tensor | None, draw: Tensor, epsilon: float | Tensor) -> Tensor:
        rows = len(draw)
        if rows != self._act_rows:
            self._act_rows, self._act_work = rows, self._workspace(rows)
        action = torch.empty(rows, dtype=torch.int64)
        legal = None if mask is None else mask.data_ptr()
        self._library.hotlap_q_act(
            self._net,
            self._flat,
            obs.data_ptr(),
            legal,
            draw.data_ptr(),
            epsilon,
            scale_of(float(epsilon)),
            action.data_ptr(),
            rows,
            self._act_work.data_ptr(),
        )
        return action

    def loss(self, batch: Batch) -> Tensor:
        rows = len(batch.action)
        if rows != self._rows:
            self._rows, self._work, self._error = rows, self._workspace(rows), torch.empty(rows)
        self._batch[:] = [
            batch.obs.data_ptr(),
            batch.next_obs.data_ptr(),
            batch.action.data_ptr(),
            batch.reward.data_ptr(),
            batch.discount.data_ptr(),
            0 if batch.next_mask is None else batch.next_mask.data_ptr(),
            0 if batch.weight is None else batch.weight.data_ptr(),
        ]
        work = self._work.data_ptr()
        self._total += self._library.hotlap_q_loss(
            self._net, self._flat, self._target, self._batch, self._double, self._error.data_ptr(), rows, work
        )
        self._count += 1
        return self._error

    def backward(self) -> None:
        self._library.hotlap_q_backward(self._net, self._flat, self._gradient, self._rows, self._work.data_ptr())

    def mean_loss(self) -> Tensor:
        mean = torch.tensor(self._total / self._count)
        self._total, self._count = 0.0, 0
        return mean

    def _workspace(self, rows: int) -> Tensor:
        return torch.zeros(self._library.hotlap_q_workspace(self._net, rows))


def scale_of(epsilon: float) -> float:
    """What scales a draw below epsilon to one below 1."""
    return 1 / max(epsilon, 1e-9)


class CompiledAdam(Adam):
    """Adam on one vector in one C call, instead of a handful of torch operations."""

    def step(self, gradient: Tensor) -> None:
        q_library().hotlap_adam(
            self.flat.data_ptr(),
            gradient.data_ptr(),
            self.mean.data_ptr(),
            self.square.data_ptr(),
            len(gradient),
            self.steps.data_ptr(),
            self.rate.data_ptr(),
            self.eps,
            self.clip,
            self.norm.data_ptr(),
        )


def fits(net: nn.Module, spec: EnvSpec, device: torch.device) -> bool:
    """Whether this is a network that q.c computes, and faster than torch."""
    kinds = SPARSE_KINDS if spec.obs_size else OBS_KINDS
    if not is_dense(net) or spec.obs_dtype not in kinds:
        return False
    linears = _linears(net)
    small = len(linears) <= MOST_LAYERS and max(linear.out_features for linear in linears) <= WIDEST
    return small and device.type == "cpu" and q_library() is not None


def is_dense(net: nn.Module) -> TypeGuard[QNet]:
    """Whether it is linear layers with ReLU between them, after an encoder that has no parameters."""
    if type(net) is not QNet or type(net.encoder) not in (Flatten, Sparse):
        return False
    return _only_linears(net) and all(type(linear) is nn.Linear and linear.bias is not None for linear in _linears(net))


def _linears(net: QNet) -> list[nn.Linear]:
    """In the order of q.c: hidden layers, then the head or heads."""
    heads = [net.advantage, *((net.value,) if net.value is not None else ())]
    return [*(module for module in net.trunk.modules() if isinstance(module, nn.Linear)), *heads]


def _only_linears(net: QNet) -> bool:
    """Whether its trunk is linear layers with ReLU after each, and nothing else."""
    modules = [module for module in net.trunk.modules() if type(module) is not nn.Sequential]
    return [*map(type, modules)] == [nn.Linear, nn.ReLU] * (len(modules) // 2)


def _struct_of(net: QNet, spec: EnvSpec, flat: nn.Parameter) -> Any:
    """q.c's struct Net."""

    def place(parameter: Tensor) -> int:
        return (parameter.data_ptr() - flat.data_ptr()) // flat.element_size()

    kinds = SPARSE_KINDS if spec.obs_size else OBS_KINDS
    obs_width = 1
    for length in spec.obs_shape:
        obs_width *= length
    linears, dueling = _linears(net), net.value is not None
    numbers = [kinds[spec.obs_dtype], obs_width, net.advantage.out_features, int(dueling), len(linears) - dueling]
    for linear in linears:
        numbers += [linear.in_features, linear.out_features, place(linear.weight), place(linear.bias)]
    return (ctypes.c_int64 * len(numbers))(*numbers)


@cache
def q_library() -> Any:
    library = native.optional("q", Path(__file__).with_name("q.c"), native.REASSOCIATED)
    if library is not None:
        pointer, size, single = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        library.hotlap_q_workspace.argtypes, library.hotlap_q_workspace.restype = [pointer, size], size
        library.hotlap_q_act.argtypes = [pointer] * 5 + [single, single, pointer, size, pointer]
        library.hotlap_q_loss.argtypes = [pointer] * 4 + [size, pointer, size, pointer]
        library.hotlap_q_backward.argtypes = [pointer, pointer, pointer, size, pointer]
        library.hotlap_adam.argtypes = [pointer] * 4 + [size, pointer, pointer, single, single, pointer]
        library.hotlap_q_loss.restype = single
        library.hotlap_q_act.restype = library.hotlap_q_backward.restype = library.hotlap_adam.restype = None
    return library

"""Advantages of a rollout: a C loop where a compiler is at hand, the same in torch elsewhere and on a GPU."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap import native
from hotlap.errors import KernelError

_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")


def gae(reward: Tensor, value: Tensor, done: Tensor, gamma: float, lam: float, out: Tensor | None = None) -> Tensor:
    """Advantages [T, N] from rewards [T, N], values [T + 1, N] and ends of episodes [T, N] (1 or 0), all float32.

    The reward of a step that truncated its episode must already hold the discounted value of where it was cut off.
    """
    out = torch.empty_like(reward) if out is None else out
    arrays = (reward, value, done, out)
    function = None if reward.is_cuda else _native()
    if function is None or not all(array.is_contiguous() for array in arrays):
        return gae_in_torch(reward, value, done, gamma, lam, out)
    function(*(array.data_ptr() for array in arrays), *reward.shape, gamma, lam)
    return out


def gae_in_torch(reward: Tensor, value: Tensor, done: Tensor, gamma: float, lam: float, out: Tensor) -> Tensor:
    """The specification of gae.c."""
    alive = 1.0 - done
    delta = reward + gamma * value[1:] * alive - value[:-1]
    running = torch.zeros_like(reward[0])
    for t in range(len(reward) - 1, -1, -1):
        running = delta[t] + gamma * lam * alive[t] * running
        out[t] = running
    return out


@cache
def _native() -> Any:
    source = Path(__file__).with_name("gae.c")
    if (cc := native.compiler()) is None:
        return None
    path = native.library("gae", source.read_text(), *_FLAGS, native.compiler_version(cc), native.cpu())
    try:
        native.build(path, "gae.c", cc, [*_FLAGS, str(source)])
        function = ctypes.CDLL(str(path)).hotlap_gae
    except (KernelError, OSError):
        return None
    pointers, sizes, numbers = [ctypes.c_void_p] * 4, [ctypes.c_int64] * 2, [ctypes.c_float] * 2
    function.argtypes, function.restype = [*pointers, *sizes, *numbers], None
    return function

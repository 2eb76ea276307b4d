"""Small operations that are faster than torch's on a CPU."""

import ctypes
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

MINUS_ONE = torch.tensor(-1.0)
_KEPT = 1 << 30  # bytes: larger pieces of memory are given back to the system at once


def half_tanh_(x: Tensor) -> Tensor:
    """In place: the hyperbolic tangent of half of x, by the logistic function, which torch computes faster."""
    x.sigmoid_()
    return torch.add(MINUS_ONE, x, alpha=2, out=x)  # 2 s - 1, in one operation


def keep_memory() -> None:
    """Let the C library keep freed memory for the next tensor, instead of returning it and faulting it in again."""
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(-3, _KEPT)  # M_MMAP_THRESHOLD
        library.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


class Lanes:
    """Threads that each run a chain of operations on their part of the rows.

    Two chains of operations of one thread each do not wait for each other, as every operation of two threads does.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count - 1, "lane") if count > 1 else None

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """The results of some jobs, without gradients; the first runs in this thread."""
        if self._pool is None or len(jobs) == 1:
            return [job() for job in jobs]
        inference = torch.is_inference_mode_enabled()  # which each thread has for itself

        def run(job: Callable[[], T]) -> T:
            with torch.inference_mode(inference), torch.no_grad():
                return job()

        others = [self._pool.submit(run, job) for job in jobs[1:]]
        return [run(jobs[0]), *(other.result() for other in others)]

    def split(self, rows: int) -> list[slice]:
        """A part of the rows for each lane."""
        count = min(self.count, rows)
        return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]

"""Prioritised replay's sum tree: draws indices in proportion to their priorities, many at a time.

`SumTree` is plain torch, for any device; `CompiledSumTree` does the same on a CPU in one C call (tree.c). Both keep the same
arrays, so a checkpoint of one fits the other. `make_tree` chooses.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap.core import native

LEAST = 1e-6  # added to errors, so that everything is replayed at times


class SumTree:
    """A tree with 32 children per node instead of two: a million leaves are four levels deep, so a batched draw or update is a
    handful of tensor operations. Sums are recomputed from the children, so no error builds up.
    """

    FAN = 32

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.levels: list[Tensor] = []
        self.top = torch.ones((), dtype=torch.float64, device=device)  # the highest priority so far, that of new leaves
        size = capacity
        while True:
            blocks = -(-size // self.FAN)
            self.levels.append(torch.zeros(blocks * self.FAN, dtype=torch.float64, device=device))
            if blocks == 1:
                break
            size = blocks

    @property
    def total(self) -> Tensor:
        return self.levels[-1].sum()

    def get(self, index: Tensor) -> Tensor:
        return self.levels[0][index]

    def set(self, index: Tensor, priority: Tensor) -> None:
        """Give leaves [B] new priorities [B] >= 0."""
        self.levels[0][index] = priority
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            index = index // self.FAN
            above[index] = below.view(-1, self.FAN).index_select(0, index).sum(dim=1)

    def set_errors(self, index: Tensor, error: Tensor, alpha: float) -> None:
        """Give leaves [B] the priorities of their errors [B]."""
        priority = (error.abs().to(torch.float64) + LEAST).pow(alpha)
        self.set(index, priority)
        torch.maximum(self.top, priority.max(), out=self.top)

    def open_range(self, begin: int, end: int) -> None:
        """Give neighbouring leaves the highest priority so far."""
        self.levels[0][begin:end] = self.top
        for below, above in zip(self.levels, self.levels[1:], strict=False):
            begin, end = begin // self.FAN, -(-end // self.FAN)
            above[begin:end] = below.view(-1, self.FAN)[begin:end].sum(dim=1)

    def draw(self, positions: Tensor) -> Tensor:
        """The leaves [B] that the cumulative priorities `positions` [B], each in [0, total), fall into."""
        node = torch.zeros_like(positions, dtype=torch.int64)
        rest = positions
        for level in reversed(self.levels):
            children = level.view(-1, self.FAN).index_select(0, node)
            sums = children.cumsum(dim=1)
            # Rounding may push a position past the last child: then take the last one that has any priority.
            rest = torch.minimum(rest, sums[:, -1] * (1 - 1e-12))
            child = torch.searchsorted(sums, rest[:, None], right=True)
            rest = rest - (sums.sub_(children)).gather(1, child)[:, 0]
            node = node * self.FAN + child[:, 0]
        return node

    def sample(self, jitter: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        """Leaves [B] and their importance weights [B], the highest of which is 1.

        One draw from each of B equal slices of the total, at `jitter` [B] within it: as fair as independent draws, with less
        variance.
        """
        slices = torch.arange(len(jitter), dtype=torch.float64, device=jitter.device)
        index = self.draw((slices + jitter) / len(jitter) * self.total)
        priority = self.get(index)  # the number of leaves and the total cancel out of weight / highest weight
        return index, (priority / priority.min()).pow(-beta).to(torch.float32)


class CompiledSumTree(SumTree):
    """The same on a CPU, in C."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        super().__init__(capacity, device)
        self._library = tree_library()
        numbers = (len(self.levels), *(level.data_ptr() for level in self.levels))
        self._struct = (ctypes.c_int64 * len(numbers))(*numbers)  # tree.c's struct Tree
        self._tree = ctypes.addressof(self._struct)
        self._top = self.top.data_ptr()

    def set(self, index: Tensor, priority: Tensor) -> None:
        self._library.hotlap_tree_set(self._tree, index.data_ptr(), priority.data_ptr(), len(index))

    def set_errors(self, index: Tensor, error: Tensor, alpha: float) -> None:
        self._library.hotlap_tree_set_errors(
            self._tree, index.data_ptr(), error.data_ptr(), len(index), alpha, LEAST, self._top
        )

    def open_range(self, begin: int, end: int) -> None:
        self._library.hotlap_tree_set_range(self._tree, begin, end, self._top)

    def draw(self, positions: Tensor) -> Tensor:
        index = torch.empty(len(positions), dtype=torch.int64)
        self._library.hotlap_tree_draw(self._tree, positions.data_ptr(), index.data_ptr(), len(index))
        return index

    def sample(self, jitter: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor]:
        index, weight = torch.empty(len(jitter), dtype=torch.int64), torch.empty(len(jitter))
        self._library.hotlap_tree_sample(self._tree, jitter.data_ptr(), beta, index.data_ptr(), weight.data_ptr(), len(index))
        return index, weight


def make_tree(capacity: int, device: torch.device) -> SumTree:
    """In C on a CPU, where there is a compiler."""
    kind = CompiledSumTree if device.type == "cpu" and tree_library() is not None else SumTree
    return kind(capacity, device)


@cache
def tree_library() -> Any:
    library = native.optional("tree", Path(__file__).with_name("tree.c"), native.REASSOCIATED)
    if library is not None:
        pointer, size, double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        library.hotlap_tree_set.argtypes = [pointer, pointer, pointer, size]
        library.hotlap_tree_set_range.argtypes = [pointer, size, size, pointer]
        library.hotlap_tree_set_errors.argtypes = [pointer, pointer, pointer, size, double, double, pointer]
        library.hotlap_tree_draw.argtypes = [pointer, pointer, pointer, size]
        library.hotlap_tree_sample.argtypes = [pointer, pointer, double, pointer, pointer, size]
        for name in ("set", "set_range", "set_errors", "draw", "sample"):
            getattr(library, f"hotlap_tree_{name}").restype = None
    return library

"""Prioritised replay. Replaces a sum tree that Python walks node by node, for one transition at a time.

    memory = PrioritisedReplay(100_000)
    memory.add(states, actions, rewards, afters, dones)     # arrays [n, ...], with the highest priority so far
    batch = memory.sample(64, beta=0.4)                     # batch.columns, batch.weights [64], batch.indices [64]
    memory.update(batch.indices, td_errors)                 # [64]

`SumTree` is one array of float64, node k over 2k and 2k + 1. All leaves of a batch go up or down the tree together: a handful
of numpy calls per level; where Numba is installed, one compiled call. Both give the same bits as a tree walked in Python,
because each node is the sum of its two children. One draw from each of k equal slices of the total, as in Schaul et al. (2015).
Proven in tests/test_fast.py: tree and draws equal, bit for bit, to a loop over nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch

try:
    import numba
except ImportError:
    numba = None  # type: ignore[assignment]


class SumTree:
    """Priorities [capacity] >= 0, their sums, and which leaf a cumulative priority falls into."""

    def __init__(self, capacity: int) -> None:
        self.depth = max(1, (capacity - 1).bit_length())
        self.first = 1 << self.depth  # the node of leaf 0
        self.nodes = np.zeros(2 * self.first, np.float64)

    @property
    def total(self) -> float:
        return float(self.nodes[1])

    def get(self, leaves: Any) -> Any:
        return self.nodes[np.asarray(leaves) + self.first]

    def set(self, leaves: Any, priorities: Any) -> None:
        """Give leaves [k] new priorities [k]; of a leaf that comes twice, the last one stays."""
        index = np.ascontiguousarray(leaves, np.int64)
        values = np.ascontiguousarray(np.broadcast_to(np.asarray(priorities, np.float64), index.shape))
        _set(self.nodes, index + self.first, values, self.depth)

    def find(self, positions: Any) -> Any:
        """The leaves [k] in which cumulative priorities [k], each in [0, total), fall."""
        return _find(self.nodes, np.array(positions, np.float64), self.depth) - self.first


def _set_arrays(nodes: np.ndarray, index: np.ndarray, values: np.ndarray, depth: int) -> None:
    nodes[index] = values
    for _ in range(depth):
        index = index >> 1
        nodes[index] = nodes[2 * index] + nodes[2 * index + 1]


def _find_arrays(nodes: np.ndarray, rest: np.ndarray, depth: int) -> np.ndarray:
    index = np.ones(len(rest), np.int64)
    for _ in range(depth):
        index = 2 * index
        left = nodes[index]
        right = (rest >= left) & (nodes[index + 1] > 0)  # rounding must not lead to a leaf without priority
        rest = np.where(right, rest - left, rest)
        index += right
    return index


def _set_loop(nodes: np.ndarray, index: np.ndarray, values: np.ndarray, depth: int) -> None:
    for k in range(len(index)):
        node = index[k]
        nodes[node] = values[k]
        for _ in range(depth):
            node >>= 1
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


def _find_loop(nodes: np.ndarray, rest: np.ndarray, depth: int) -> np.ndarray:
    found = np.empty(len(rest), np.int64)
    for k in range(len(rest)):
        node, left_over = 1, rest[k]
        for _ in range(depth):
            node *= 2
            if left_over >= nodes[node] and nodes[node + 1] > 0:
                left_over -= nodes[node]
                node += 1
        found[k] = node
    return found


_set, _find = (_set_arrays, _find_arrays) if numba is None else (numba.njit(_set_loop), numba.njit(_find_loop))


@dataclass
class Batch:
    columns: list[Any]  # [k, ...] each, as tensors
    weights: torch.Tensor  # [k]: importance weights, the highest of the batch is 1
    indices: np.ndarray  # [k]: for `update`


class PrioritisedReplay:
    """A ring of rows; each is drawn in proportion to (|error| + epsilon) ** alpha."""

    def __init__(self, capacity: int, alpha: float = 0.6, epsilon: float = 1e-6, seed: Optional[int] = None) -> None:  # noqa: UP045
        self.capacity, self.alpha, self.epsilon = capacity, alpha, epsilon
        self.tree, self.highest = SumTree(capacity), 1.0
        self.position = self.size = 0
        self._columns: list[np.ndarray] = []
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self.size

    def add(self, *columns: Any) -> None:
        """Store rows: for each field an array [n, ...], n at most the capacity. They get the highest priority so far."""
        arrays = [np.asarray(column) for column in columns]
        if not self._columns:
            self._columns = [np.empty((self.capacity, *array.shape[1:]), array.dtype) for array in arrays]
        places = (self.position + np.arange(len(arrays[0]))) % self.capacity
        for kept, array in zip(self._columns, arrays):
            kept[places] = array
        self.tree.set(places, self.highest)
        self.position = int(self.position + len(places)) % self.capacity
        self.size = min(self.size + len(places), self.capacity)

    def sample(self, k: int, beta: float) -> Batch:
        """k rows, with the weights (N * P) ** -beta over their highest."""
        positions = (np.arange(k) + self._random.random(k)) / k * self.tree.total
        indices = self.tree.find(positions)
        priorities = self.tree.get(indices)
        weights = (priorities / priorities.min()) ** -beta  # N and the total cancel out
        columns = [torch.from_numpy(column[indices]) for column in self._columns]
        return Batch(columns, torch.from_numpy(weights.astype(np.float32)), indices)

    def update(self, indices: np.ndarray, errors: Any) -> None:
        """Give rows [k] the priorities of their errors [k] (array or tensor)."""
        values = errors.detach().cpu().numpy() if isinstance(errors, torch.Tensor) else np.asarray(errors)
        priorities = (np.abs(values.astype(np.float64)) + self.epsilon) ** self.alpha
        self.tree.set(indices, priorities)
        self.highest = max(self.highest, float(priorities.max()))

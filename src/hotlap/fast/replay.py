"""A replay buffer in arrays. Replaces a deque or a list of transitions that is sampled with `random.sample` and `zip`.

    memory = Ring(maxlen=100_000)                        # was: deque(maxlen=100_000)
    memory.append((state, action, reward, after, done))  # as before
    memory.add(states, actions, rewards, afters, dones)  # or all rows of a vector step at once: arrays [n, ...]
    states, actions, *rest = memory.sample(64).columns() # was: zip(*random.sample(memory, 64))

It looks like a deque (append, extend, len, indexing, iteration, clear). Fields that are arrays or tensors of one shape and type
are kept as one array [rows, ...]; a batch of them is one gather and comes as one array [k, ...]. Numbers come as a tuple, as
from `zip`. What fits neither (None, other shapes) stays a list of objects. Rows are copied when stored: a state that is
the `after` of one transition and the `state` of the next is there twice.

`sample` draws with Python's `random` exactly as `random.sample(memory, k)` does, so the same seed gives the same transitions.
Proven in tests/test_fast.py: the same rows, bit for bit, as a deque of the same length, through any stores and draws.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch

FIRST = 1024  # rows that there is room for at first; it doubles until there is room for `maxlen`

_NUMBERS = (bool, int, float, np.float64)  # that come as a tuple of numbers: torch makes float32 of those, float64 of an array


class Ring:
    """Rows of equally many fields, the oldest first; with `maxlen`, the oldest give way."""

    def __init__(self, maxlen: Optional[int] = None) -> None:  # noqa: UP045 - Python 3.9
        self.maxlen = maxlen
        self.clear()

    def clear(self) -> None:
        self._room = FIRST if self.maxlen is None else min(FIRST, self.maxlen)
        self._next = self._size = 0
        self._columns: list[Any] = []  # arrays or tensors [room, ...], or lists of objects
        self._kinds: list[Any] = []
        self._row: Any = tuple

    def __len__(self) -> int:
        return self._size

    # -- storing --

    def append(self, row: Sequence[Any]) -> None:
        """Store one row."""
        if not self._columns:
            self._open(row)
        if self._size == self._room != self.maxlen:
            self._grow(self._size + 1)
        place, columns = self._next, self._columns
        if len(row) != len(columns):
            raise ValueError(f"a row has {len(columns)} fields, not {len(row)}")
        for k, value in enumerate(row):
            if self._kinds[k] is not None and self._kinds[k] != _kind(value):
                self._loosen(k)
            columns[k][place] = value
        self._move(1)

    def extend(self, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self.append(row)

    def add(self, *columns: Any) -> None:
        """Store many rows at once: for each field an array or tensor [n, ...]. Anything else is stored row by row."""
        count = len(columns[0])
        if not self._columns and count:
            self._open([column[0] for column in columns])
        kinds = [_kind(column[0]) if count and isinstance(column, (np.ndarray, torch.Tensor)) else None for column in columns]
        if None in kinds or kinds != self._kinds or (self.maxlen is not None and count > self.maxlen):
            self.extend(zip(*columns))
            return
        if self._size + count > self._room != self.maxlen:
            self._grow(self._size + count)
        ahead = min(count, self._room - self._next)  # the others begin at the front again
        for kept, column in zip(self._columns, columns):
            kept[self._next : self._next + ahead] = column[:ahead]
            kept[: count - ahead] = column[ahead:]
        self._move(count)

    def _move(self, count: int) -> None:
        self._next = (self._next + count) % self._room
        self._size = min(self._size + count, self._room)

    def _open(self, row: Sequence[Any]) -> None:
        """Make columns for rows like this one."""
        if not isinstance(row, (tuple, list)):
            raise TypeError(f"a row is a tuple of fields, not a {type(row).__name__}")
        self._row = type(row) if hasattr(row, "_fields") else tuple
        self._kinds = [_kind(value) for value in row]
        self._columns = [_column(value, kind, self._room) for value, kind in zip(row, self._kinds)]

    def _loosen(self, k: int) -> None:
        """A field that no array can hold any more becomes a list of objects."""
        values = _values(self._columns[k], self._kinds[k], list(range(self._room)))
        self._columns[k], self._kinds[k] = list(values), None

    def _grow(self, needed: int) -> None:
        room = max(2 * self._room, needed)
        room = room if self.maxlen is None else min(room, self.maxlen)
        for k, column in enumerate(self._columns):
            if isinstance(column, list):
                column.extend([None] * (room - self._room))
            else:
                self._columns[k] = _column(column[0], self._kinds[k], room)
                self._columns[k][: self._room] = column
        self._next, self._room = self._size, room

    # -- drawing --

    def sample(self, k: int) -> Rows:
        """k rows without replacement: those that `random.sample` would draw from a list of the same length."""
        return self.rows(random.sample(range(self._size), k))

    def rows(self, indices: Any) -> Rows:
        """The rows at these indices [k], counted from the oldest."""
        places = np.asarray(indices, np.int64)
        if places.size and not (-self._size <= places.min() and places.max() < self._size):
            raise IndexError("no such row")
        return Rows(self, (places % max(self._size, 1) + self._oldest) % self._room)

    @property
    def _oldest(self) -> int:
        return self._next if self._size == self._room else 0

    def __getitem__(self, index: int) -> Any:
        return self.rows([index])[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows(range(self._size)))


class Rows:
    """Some rows of a ring, at `places` of its arrays."""

    def __init__(self, ring: Ring, places: np.ndarray) -> None:
        self.ring, self.places = ring, places

    def __len__(self) -> int:
        return len(self.places)

    def columns(self) -> tuple[Any, ...]:
        """For each field, the batch: an array or tensor [k, ...], or a tuple of k numbers or objects."""
        return tuple(self.column(k) for k in range(len(self.ring._columns)))

    def column(self, k: Any) -> Any:
        """One field of the batch, by its place or by its name in a namedtuple."""
        k = self.ring._row._fields.index(k) if isinstance(k, str) else k
        return _values(self.ring._columns[k], self.ring._kinds[k], self.places)

    def __iter__(self) -> Iterator[Any]:
        made = self.ring._row
        return (made(row) if made is tuple else made(*row) for row in zip(*self.columns()))

    def __getitem__(self, index: int) -> Any:
        return next(iter(Rows(self.ring, self.places[[index]])))


def stack(column: Any) -> Any:
    """A column as one array or tensor [k, ...]; what np.stack or torch.stack makes of its rows."""
    if isinstance(column, (np.ndarray, torch.Tensor)):
        return column
    rows = list(column)
    return torch.stack(rows) if isinstance(rows[0], torch.Tensor) else np.stack(rows)


def cat(column: Any) -> Any:
    """What torch.cat makes of the rows of a column."""
    return column.flatten(0, 1) if isinstance(column, torch.Tensor) else torch.cat(list(column))


def _kind(value: Any) -> Any:
    """What a field must have in common with the others of its column to be kept in one array; None: it cannot be."""
    if isinstance(value, np.ndarray):
        return (np.ndarray, value.dtype, value.shape) if value.dtype.kind in "biufc" else None
    if isinstance(value, torch.Tensor):
        return None if value.requires_grad else (torch.Tensor, value.dtype, value.shape, value.device)
    is_number = isinstance(value, np.generic) and value.dtype.kind in "biufc"
    return type(value) if is_number or type(value) in _NUMBERS else None


def _column(value: Any, kind: Any, room: int) -> Any:
    if kind is None:
        return [None] * room
    if isinstance(value, torch.Tensor):
        return torch.empty((room, *value.shape), dtype=value.dtype, device=value.device)
    return np.empty((room, *np.shape(value)), np.asarray(value).dtype)


def _values(column: Any, kind: Any, places: Any) -> Any:
    """The batch of one field, as `zip` would give it, or stacked."""
    if isinstance(column, list):
        return tuple(column[place] for place in places)
    if isinstance(column, torch.Tensor):
        return column[torch.as_tensor(places, device=column.device)]
    picked = column[places]
    return tuple(picked.tolist()) if kind in _NUMBERS else picked

"""Generated maps: a new one for each episode, from the environment's own random numbers. `generate.h` is the same in C.

Walls divide the map into rooms, and objects never stand next to walls or to each other, so every floor cell can be reached from
every other one, and every object from some floor cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.maps import FLOOR
from hotlap.envs.mettagrid.objects import PLACEABLE, Kind
from hotlap.envs.rng import Rng

PITCH = {"open": 0, "rooms": 8, "maze": 4}  # cells from one line of walls to the next, at least; 0: one room
GENERATORS = tuple(PITCH)


@dataclass(frozen=True)
class Generator:
    """How maps are made: `rooms` have doors of one cell to all neighbours; in a `maze`, whole walls are open, and there is one
    way only from one room to another."""

    name: str
    rows: int
    columns: int
    counts: Mapping[Kind, int]

    @property
    def rooms(self) -> tuple[int, int]:
        """Rows and columns of rooms."""
        pitch = PITCH[self.name]
        return (max(1, (self.rows - 1) // pitch), max(1, (self.columns - 1) // pitch)) if pitch else (1, 1)

    @property
    def lines(self) -> tuple[list[int], list[int]]:
        """Rows and columns that are walls, from border to border."""
        down, right = self.rooms
        return (
            [i * (self.rows - 1) // down for i in range(down + 1)],
            [i * (self.columns - 1) // right for i in range(right + 1)],
        )

    @property
    def capacity(self) -> int:
        """How many objects always find room: each takes the room of 3 x 3 at most, in one of the rooms."""
        total = 0
        heights, widths = (np.diff(lines) - 3 for lines in self.lines)  # without walls and the cells next to them
        for height in heights.tolist():
            for width in widths.tolist():
                if height > 0 and width > 0:
                    total += -(-height * width // (min(3, height) * min(3, width)))
        return total

    @property
    def floor(self) -> int:
        """Cells that are free in every map, at least."""
        heights, widths = (np.diff(lines) - 1 for lines in self.lines)
        return int(heights.sum() * widths.sum()) - sum(self.counts.values())

    def make(self, rng: Rng) -> NDArray[np.uint8]:
        """The cells of a new map."""
        cells = np.full((self.rows, self.columns), FLOOR, np.uint8)
        across, along = self.lines
        cells[across, :] = cells[:, along] = Kind.WALL + 1
        for i, j in np.ndindex(*self.rooms):
            self._open(cells, rng, i, j)
        for kind in PLACEABLE:
            for _ in range(self.counts.get(kind, 0)):
                self._place(cells, rng, kind)
        return cells

    def _open(self, cells: NDArray[np.uint8], rng: Rng, i: int, j: int) -> None:
        """The ways from room (i, j) to the one above it and to the one on its left."""
        across, along = self.lines
        top, bottom, left, right = across[i], across[i + 1], along[j], along[j + 1]
        if self.name == "maze":
            go_left = j > 0 and (i == 0 or bool(rng.below(2)))
            if go_left:
                cells[top + 1 : bottom, left] = FLOOR
            elif i:
                cells[top, left + 1 : right] = FLOOR
        else:
            if i:
                cells[top, left + 1 + rng.below(right - left - 1)] = FLOOR
            if j:
                cells[top + 1 + rng.below(bottom - top - 1), left] = FLOOR

    def _place(self, cells: NDArray[np.uint8], rng: Rng, kind: Kind) -> None:
        """On a random cell; if that or one of its eight neighbours is taken, on the next one in reading order that fits."""
        inner = (self.rows - 2, self.columns - 2)
        drawn = rng.below(inner[0] * inner[1])
        for step in range(inner[0] * inner[1]):
            row, column = divmod((drawn + step) % (inner[0] * inner[1]), inner[1])
            if not cells[row : row + 3, column : column + 3].any():  # around (row + 1, column + 1)
                cells[row + 1, column + 1] = kind + 1
                return

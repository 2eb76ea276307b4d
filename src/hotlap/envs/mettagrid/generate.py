"""Generated maps: a new one for each episode, from the environment's own random numbers. `generate.h` is the same in C.

Walls divide the map into rooms, and objects never stand next to walls or to each other, so every floor cell can be reached from
every other one, and every object from some floor cell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.maps import FLOOR
from hotlap.envs.mettagrid.objects import PLACEABLE, Cell, Kind
from hotlap.envs.rng import Rng

PITCH = {"open": 0, "rooms": 8, "maze": 4}  # cells from one line of walls to the next, at least; 0: one room
GENERATORS = tuple(PITCH)
TRIES = 32  # cells that are drawn before one is searched for


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
        """On a random cell that is free, with its eight neighbours."""
        row, column = draw_cell(rng, (self.rows, self.columns), lambda i, j: not cells[i - 1 : i + 2, j - 1 : j + 2].any())
        cells[row, column] = kind + 1


def draw_cell(rng: Rng, shape: tuple[int, int], fits: Callable[[int, int], bool]) -> Cell:
    """A random cell within the border that fits. Cells are drawn up to TRIES times; if none of them fits, it is the next one in
    reading order after the last of them, from the beginning again after the end."""
    height, width = shape[0] - 2, shape[1] - 2
    drawn = 0
    for _ in range(TRIES):
        drawn = rng.below(height * width)
        row, column = 1 + drawn // width, 1 + drawn % width
        if fits(row, column):
            return row, column
    for number in range(drawn + 1, drawn + height * width):
        row, column = 1 + number // width % height, 1 + number % width
        if fits(row, column):
            return row, column
    raise AssertionError("options are checked for room")

"""Maps of Predators: lines of `#` (wall) and `.` (floor)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_SIDE = 64
DEFAULT_MAP = """
............
.##..##..##.
.#........#.
............
...##..##...
...#....#...
...#....#...
...##..##...
............
.#........#.
.##..##..##.
............
"""


def read_map(text: Any, inhabitants: int) -> NDArray[np.uint8]:
    """The walls [rows, columns] of a map with room for so many; blank lines around it do not count."""
    if not isinstance(text, str):
        raise ValueError(f"predators: a map is text, lines of # and ., not {type(text).__name__}")
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines or any(set(line) - set("#.") for line in lines):
        raise ValueError("predators: a map is lines of # (wall) and . (floor), and nothing else")
    if len({len(line) for line in lines}) > 1 or max(len(lines), len(lines[0])) > MAX_SIDE:
        raise ValueError(f"predators: the lines of a map must be equally long; at most {MAX_SIDE} lines of {MAX_SIDE}")
    walls = np.array([[cell == "#" for cell in line] for line in lines], np.uint8)
    floor = int((walls == 0).sum())
    if floor < inhabitants:
        raise ValueError(f"predators: this map has {floor} cells of floor for {inhabitants} predators and prey")
    return walls

"""Maps of MettaGrid in text files.

A map is lines of one length: `#` wall, `.` floor, `@` agent, `s` block, `m` mine, `n` generator, `_` altar, `L` lasery,
`A` armory. Its border is wall. Below it, lines `agent ROW COLUMN` or `agent ROW COLUMN up` (right, down, left) may place more
agents, counted from 0. Agents are numbered in reading order, then line by line.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.objects import AGENT_SYMBOL, CONVERTERS, DIRECTIONS, FLOOR_SYMBOL, SYMBOLS, Cell, Kind

MIN_SIDE, MAX_SIDE = 3, 128
MAX_BYTES = 1 << 16  # a legal file is smaller
FLOOR = 0  # in `cells`; the others are their kind + 1
ANY = -1  # facing: drawn at random


@dataclass(frozen=True)
class AgentStart:
    """Where an agent begins, and which way it faces."""

    cell: Cell
    facing: int = ANY


@dataclass(frozen=True)
class Map:
    """What is where: FLOOR, or the kind of the object + 1, [rows, columns]; and where agents begin."""

    cells: NDArray[np.uint8]
    starts: tuple[AgentStart, ...] = ()

    def count(self, *kinds: Kind) -> int:
        return int(np.isin(self.cells, [kind + 1 for kind in kinds]).sum())

    @property
    def floor(self) -> int:
        return int((self.cells == FLOOR).sum())

    @property
    def converters(self) -> int:
        return self.count(*CONVERTERS)


class _Source:
    """A text with a name, and errors that name its lines."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = [line.strip() for line in text.split("\n")]

    def refuse(self, line: int, message: str) -> NoReturn:
        raise ValueError(f"mettagrid: {self.name}, line {line}: {message}")


def read_map(source: Any) -> Map:
    """The map in a file, or in a text that has line breaks."""
    if isinstance(source, str) and "\n" in source:
        read = _Source("map", source[:MAX_BYTES])
        whole = len(source) <= MAX_BYTES
    elif isinstance(source, str | Path):
        read, whole = _open(Path(source))
    else:
        raise ValueError(f"mettagrid: a map is a path, or text with line breaks, not {type(source).__name__}")
    first = next((number for number, line in enumerate(read.lines, 1) if line), 0)
    if not first:
        read.refuse(1, "there is no map: it is empty")
    cells, starts, after = _read_grid(read, first)
    starts += _read_agents(read, after, cells, starts)
    if not whole:
        read.refuse(len(read.lines), f"the text goes on beyond {MAX_BYTES:,} bytes, which no map needs")
    return Map(cells, tuple(starts))


def _open(path: Path) -> tuple[_Source, bool]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"mettagrid: cannot read the map {path}: {error.strerror or error}") from None
    whole, data = len(data) <= MAX_BYTES, data[:MAX_BYTES]
    try:
        return _Source(path.name, data.decode().removeprefix("\ufeff")), whole
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"mettagrid: {path.name}, line {line}: this is not text in UTF-8") from None


def _read_grid(read: _Source, first: int) -> tuple[NDArray[np.uint8], list[AgentStart], int]:
    """The cells, the agents on them, and the number of the line that follows."""
    rows: list[list[int]] = []
    starts: list[AgentStart] = []
    width, after = len(read.lines[first - 1]), first
    for after, line in enumerate(read.lines[first - 1 :], first):
        if not line or line.startswith("agent"):
            break
        if len(line) > MAX_SIDE or len(rows) == MAX_SIDE:
            size = f"{len(line):,} columns" if len(line) > MAX_SIDE else f"more than {MAX_SIDE} lines"
            read.refuse(after, f"{size}; a map has at most {MAX_SIDE} lines of {MAX_SIDE}")
        if len(line) != width:
            read.refuse(after, f"{len(line)} columns, but line {first} has {width}")
        for column, symbol in enumerate(line):
            if symbol not in SYMBOLS and symbol not in (FLOOR_SYMBOL, AGENT_SYMBOL):
                known = "".join((*SYMBOLS, FLOOR_SYMBOL, AGENT_SYMBOL))
                read.refuse(after, f"unknown symbol {symbol!r} in column {column}; a map is made of {known}")
            if symbol == AGENT_SYMBOL:
                starts.append(AgentStart((len(rows), column)))
        rows.append([SYMBOLS[symbol] + 1 if symbol in SYMBOLS else FLOOR for symbol in line])
    else:
        after += 1
    if not rows:
        read.refuse(first, "the map comes first, then the lines of agents")
    cells = np.array(rows, np.uint8)
    _check_grid(read, cells, first)
    return cells, starts, after


def _check_grid(read: _Source, cells: NDArray[np.uint8], first: int) -> None:
    rows, columns = cells.shape
    if rows < MIN_SIDE or columns < MIN_SIDE:
        read.refuse(first, f"a map has at least {MIN_SIDE} lines of {MIN_SIDE}, this one {rows} of {columns}")
    if not (cells == FLOOR).any():
        read.refuse(first, "this map has no floor")
    inside = np.zeros_like(cells, np.bool_)
    inside[1:-1, 1:-1] = True
    for row, column in np.argwhere(~inside & (cells != Kind.WALL + 1)):
        read.refuse(first + int(row), f"the border must be wall, also in column {column}")


def _read_agents(read: _Source, after: int, cells: NDArray[np.uint8], there: list[AgentStart]) -> list[AgentStart]:
    """The lines below the map."""
    starts: list[AgentStart] = []
    for number, line in enumerate(read.lines[after - 1 :], after):
        if not line:
            continue
        word, *rest = line.split()
        fits = word == "agent" and len(rest) in (2, 3) and all(one.isascii() and one.isdigit() for one in rest[:2])
        if not fits or rest[2:] not in ([], *([direction] for direction in DIRECTIONS)):
            read.refuse(number, "below the map there can only be lines such as: agent 3 4, or: agent 3 4 up")
        cell = (int(rest[0][:9]), int(rest[1][:9]))
        if cell[0] >= len(cells) or cell[1] >= len(cells[0]) or cells[cell] != FLOOR:
            read.refuse(number, f"there is no floor in row {cell[0]}, column {cell[1]}")
        if any(start.cell == cell for start in [*there, *starts]):
            read.refuse(number, f"two agents on one cell: row {cell[0]}, column {cell[1]}")
        starts.append(AgentStart(cell, DIRECTIONS.index(rest[2]) if rest[2:] else ANY))
    return starts

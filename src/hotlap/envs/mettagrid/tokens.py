"""Observations as tokens: three bytes each, a packed location, a feature and a value.

A location is row * 16 + column in the window; GLOBAL (254) is what belongs to no cell. Tokens that are not used are three bytes
of EMPTY (255). MettaGrid's package packs its tokens in the same way, so these decoders read its observations, too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid.objects import FEATURES, Cell

VIEW = 5  # how far an agent sees in each direction
WINDOW = 2 * VIEW + 1
GLOBAL, EMPTY = 0xFE, 0xFF
Feature = tuple[int, int]  # number and value


@dataclass(frozen=True)
class Seen:
    """One decoded observation: (feature, value) pairs of each cell of the window that has any, and of no cell."""

    cells: dict[Cell, tuple[Feature, ...]]
    everywhere: tuple[Feature, ...]


def pack(row: int, column: int) -> int:
    return row << 4 | column


def encode(tokens: list[tuple[int, int, int]], most: int) -> NDArray[np.uint8]:
    """(location, feature, value) as an observation [most, 3]; those that are too many are left out."""
    obs = np.full((most, 3), EMPTY, np.uint8)
    if tokens:
        obs[: len(tokens)] = tokens[:most]
    return obs


def decode(obs: NDArray[np.uint8]) -> Seen:
    """What the tokens [count, 3] of one agent say. A cell may have several values of one feature."""
    cells: dict[Cell, tuple[Feature, ...]] = {}
    everywhere: tuple[Feature, ...] = ()
    for location, feature, value in obs.tolist():
        if location == GLOBAL:
            everywhere += ((feature, value),)
        elif location != EMPTY:
            cell = (location >> 4, location & 15)
            cells[cell] = (*cells.get(cell, ()), (feature, value))
    return Seen(cells, everywhere)


def to_box(obs: NDArray[np.uint8], features: int = len(FEATURES), side: int = WINDOW) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tokens [..., count, 3] as windows [..., side, side, features] and global values [..., features]; zeros elsewhere."""
    batch, tokens = obs.shape[:-2], obs.reshape(-1, *obs.shape[-2:])
    boxes = np.zeros((len(tokens), side, side, features), np.uint8)
    everywhere = np.zeros((len(tokens), features), np.uint8)
    location, feature, value = np.moveaxis(tokens, -1, 0)
    row, i = np.nonzero(location < GLOBAL)
    boxes[row, location[row, i] >> 4, location[row, i] & 15, feature[row, i]] = value[row, i]
    row, i = np.nonzero(location == GLOBAL)
    everywhere[row, feature[row, i]] = value[row, i]
    return boxes.reshape(*batch, side, side, features), everywhere.reshape(*batch, features)

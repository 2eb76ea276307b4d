"""Fixed opponents in Connect Four, for many boards at once. A board is the observation of the player to move."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.connect4.board import COLUMNS, LINES, ROWS

_LINES = np.array([[(row, column) in line for row in range(ROWS) for column in range(COLUMNS)] for line in LINES], np.float32)


def lookahead(obs: NDArray[Any], mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Looks one move ahead: wins if it can, else prevents the other from winning, else plays at random."""
    landing = obs.sum(3) == 0
    landing[:, :-1] &= ~landing[:, 1:]  # the lowest empty cell of each column
    wins, blocks = (_completes(obs[..., plane], landing) for plane in (0, 1))
    allowed = np.where(wins.any(1, keepdims=True), wins, np.where(blocks.any(1, keepdims=True), blocks, mask))
    chosen: NDArray[np.int64] = ((1 - rng.random(mask.shape)) * allowed).argmax(1)  # in (0, 1], so never an illegal one
    return chosen


def _completes(stones: NDArray[Any], landing: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Columns [B, columns] where one more of these stones [B, rows, columns] makes four in a row."""
    three = (stones.reshape(len(stones), -1).astype(np.float32) @ _LINES.T) == 3
    cells = (three.astype(np.float32) @ _LINES > 0).reshape(stones.shape)
    columns: NDArray[np.bool_] = (cells & landing).any(1)
    return columns


BOTS = {"lookahead": lookahead}

"""Connect four rules. Player 0 is X (+1), player 1 is O (-1)."""
from dataclasses import dataclass, field
from typing import List, Optional

import numpy as np

ROWS, COLS, WIN = 6, 7, 4
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


@dataclass
class Move:
    player: int
    col: int
    row: int
    ply: int


@dataclass
class Player:
    name: str
    sign: int
    moves: List[Move] = field(default_factory=list)


class FourInARow:
    def __init__(self):
        self.grid = [[0] * COLS for _ in range(ROWS)]
        self.heights = [0] * COLS
        self.players = [Player("X", 1), Player("O", -1)]
        self.history: List[Move] = []
        self.turn = 0
        self.over = False
        self.winner: Optional[int] = None

    def legal_moves(self):
        return [c for c in range(COLS) if self.heights[c] < ROWS]

    def play(self, col):
        row = self.heights[col]
        player = self.players[self.turn]
        move = Move(self.turn, col, row, len(self.history))
        self.grid[row][col] = player.sign
        self.heights[col] += 1
        player.moves.append(move)
        self.history.append(move)
        if self._wins(row, col, player.sign):
            self.over, self.winner = True, self.turn
        elif len(self.history) == ROWS * COLS:
            self.over = True
        self.turn = 1 - self.turn
        return self.over

    def _wins(self, row, col, sign):
        for dr, dc in DIRECTIONS:
            n = 1
            for s in (1, -1):
                r, c = row + s * dr, col + s * dc
                while 0 <= r < ROWS and 0 <= c < COLS and self.grid[r][c] == sign:
                    n += 1
                    r, c = r + s * dr, c + s * dc
            if n >= WIN:
                return True
        return False

    def result_for(self, player):
        if self.winner is None:
            return 0.0
        return 1.0 if self.winner == player else -1.0

    def encode(self):
        g = np.array(self.grid, dtype=np.float32) * self.players[self.turn].sign
        return np.stack([(g > 0), (g < 0)]).astype(np.float32)

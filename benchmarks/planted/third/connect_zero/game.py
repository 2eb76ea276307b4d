"""Connect four. Plain python, no dependencies."""
from dataclasses import dataclass

ROWS, COLS = 6, 7


@dataclass
class Move:
    player: int
    col: int
    row: int


class ConnectFour:
    """`player` is the side to move (1 or -1). `winner` is None while the game is running, 0 for a draw."""

    def __init__(self):
        self.board = [[0] * COLS for _ in range(ROWS)]
        self.heights = [0] * COLS
        self.player = 1
        self.winner = None
        self.history = []

    def legal(self):
        return [c for c in range(COLS) if self.heights[c] < ROWS]

    def play(self, col):
        row = self.heights[col]
        self.board[row][col] = self.player
        self.heights[col] = row + 1
        self.history.append(Move(self.player, col, row))
        if self._four(row, col):
            self.winner = self.player
        elif len(self.history) == ROWS * COLS:
            self.winner = 0
        self.player = -self.player

    def _four(self, row, col):
        board, me = self.board, self.player
        if row >= 3 and board[row - 1][col] == me and board[row - 2][col] == me and board[row - 3][col] == me:
            return True
        for dr in (0, 1, -1):
            run = 1
            r, c = row + dr, col + 1
            while c < COLS and 0 <= r < ROWS and board[r][c] == me:
                run, r, c = run + 1, r + dr, c + 1
            r, c = row - dr, col - 1
            while c >= 0 and 0 <= r < ROWS and board[r][c] == me:
                run, r, c = run + 1, r - dr, c - 1
            if run >= 4:
                return True
        return False

    def record(self):
        """Moves as a string, e.g. '44352...', for the game log."""
        return "".join(str(m.col + 1) for m in self.history)

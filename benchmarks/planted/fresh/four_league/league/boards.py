"""Many small boards side by side: 6x6, four in a row, no gravity. Plain arrays, no gym."""
import numpy as np

SIDE, RUN = 6, 4


def _lines():
    out = []
    for y in range(SIDE):
        for x in range(SIDE):
            for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(y + i * dy, x + i * dx) for i in range(RUN)]
                if all(0 <= a < SIDE and 0 <= b < SIDE for a, b in cells):
                    out.append([a * SIDE + b for a, b in cells])
    return np.array(out)


LINES = _lines()


class Boards:
    def __init__(self, n):
        self.n = n
        self.cells = np.zeros((n, SIDE * SIDE), np.int8)
        self.rows = np.arange(n)

    def clear(self, mask):
        self.cells[mask] = 0

    def planes(self, side):
        return np.concatenate([self.cells == side, self.cells == -side], 1).astype(np.float32)

    def free(self):
        return self.cells == 0

    def put(self, where, side, active):
        """returns (won, full) for the boards that are active"""
        self.cells[self.rows[active], where[active]] = side
        won = (self.cells[:, LINES] == side).all(-1).any(-1) & active
        full = ~(self.cells == 0).any(1) & active
        return won, full

"""The sliding tile game, as a plain class."""
import random

SIZE = 4
UP, DOWN, LEFT, RIGHT = range(4)


def slide(row):
    """Push one row to the left; returns the new row and the points won."""
    tiles = [v for v in row if v]
    out, points, i = [], 0, 0
    while i < len(tiles):
        if i + 1 < len(tiles) and tiles[i] == tiles[i + 1]:
            out.append(tiles[i] + 1)
            points += 2 ** (tiles[i] + 1)
            i += 2
        else:
            out.append(tiles[i])
            i += 1
    return out + [0] * (SIZE - len(out)), points


class TileGame:
    def __init__(self, seed=0):
        self.rng = random.Random(seed)
        self.new_game()

    def new_game(self):
        self.board = [[0] * SIZE for _ in range(SIZE)]
        self.score = 0
        self.moves = 0
        self.spawn()
        self.spawn()

    def spawn(self):
        free = [(r, c) for r in range(SIZE) for c in range(SIZE) if not self.board[r][c]]
        r, c = self.rng.choice(free)
        self.board[r][c] = 1 if self.rng.random() < 0.9 else 2

    def shift(self, direction):
        """Move the tiles without spawning a new one. Returns (points, changed)."""
        rows = self.board
        if direction in (UP, DOWN):
            rows = [list(c) for c in zip(*rows)]
        flip = direction in (DOWN, RIGHT)
        new, points = [], 0
        for row in rows:
            moved, p = slide(row[::-1] if flip else row)
            new.append(moved[::-1] if flip else moved)
            points += p
        changed = new != rows
        if direction in (UP, DOWN):
            new = [list(c) for c in zip(*new)]
        self.board = new
        self.score += points
        self.moves += 1
        return points, changed

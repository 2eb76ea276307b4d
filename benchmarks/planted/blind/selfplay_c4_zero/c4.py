class Move:
    def __init__(self, player, col, row):
        self.player, self.col, self.row = player, col, row


class Connect4:
    ROWS, COLS = 6, 7

    def __init__(self):
        self.grid = [[0] * self.COLS for _ in range(self.ROWS)]
        self.height = [0] * self.COLS
        self.player = 1
        self.moves = []          # whole game record, needed for the pgn-like dump
        self.winner = None       # 1 / -1 / 0 draw / None running

    def legal(self):
        return [c for c in range(self.COLS) if self.height[c] < self.ROWS]

    def play(self, col):
        row = self.height[col]
        self.grid[row][col] = self.player
        self.height[col] += 1
        self.moves.append(Move(self.player, col, row))
        if self._four(row, col):
            self.winner = self.player
        elif len(self.moves) == self.ROWS * self.COLS:
            self.winner = 0
        self.player = -self.player

    def _four(self, row, col):
        p = self.player
        g = self.grid
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            n = 1
            for s in (1, -1):
                r, c = row + s * dr, col + s * dc
                while 0 <= r < 6 and 0 <= c < 7 and g[r][c] == p:
                    n += 1
                    r += s * dr
                    c += s * dc
            if n >= 4:
                return True
        return False

    def record(self):
        return "".join(str(m.col) for m in self.moves)

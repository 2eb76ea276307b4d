# connect four. board[row][col], row 0 is the bottom. players are 1 and -1
ROWS, COLS = 6, 7
DIRS = [(0, 1), (1, 0), (1, 1), (1, -1)]


class Move:
    __slots__ = ("player", "col", "row")

    def __init__(self, player, col, row):
        self.player = player
        self.col = col
        self.row = row

    def __repr__(self):
        return f"{'X' if self.player == 1 else 'O'}{self.col}"


class ConnectFour:
    """rules + bookkeeping, the log is there so that games can be printed / replayed later"""

    def __init__(self):
        self.board = [[0] * COLS for _ in range(ROWS)]
        self.heights = [0] * COLS
        self.to_move = 1
        self.log = []
        self.winner = 0
        self.over = False

    def legal(self):
        if self.over:
            return []
        return [c for c in range(COLS) if self.heights[c] < ROWS]

    def play(self, col):
        r = self.heights[col]
        if r >= ROWS:
            raise ValueError("column %d is full" % col)
        self.board[r][col] = self.to_move
        self.heights[col] += 1
        self.log.append(Move(self.to_move, col, r))
        if self._wins(r, col):
            self.winner = self.to_move
            self.over = True
        elif len(self.log) == ROWS * COLS:
            self.over = True
        self.to_move = -self.to_move
        return self.over

    def _wins(self, r, c):
        # only lines through the last stone
        p = self.board[r][c]
        for dr, dc in DIRS:
            n = 1
            for s in (1, -1):
                rr, cc = r + s * dr, c + s * dc
                while 0 <= rr < ROWS and 0 <= cc < COLS and self.board[rr][cc] == p:
                    n += 1
                    rr += s * dr
                    cc += s * dc
            if n >= 4:
                return True
        return False

    def show(self):
        sym = {0: ".", 1: "X", -1: "O"}
        return "\n".join("".join(sym[v] for v in row) for row in reversed(self.board))

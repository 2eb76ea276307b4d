import numpy as np


class Bricks:
    """small breakout on a 10x10 board, planes (paddle, ball, trail, bricks), B boards at a time.
    not a gym env: frame, points, dead = b.act(moves)"""

    def __init__(self, b, seed=0):
        self.b, self.ar = b, np.arange(b)
        self.rng = np.random.default_rng(seed)
        self.pad = np.full(b, 4)
        self.y, self.x, self.dy, self.dx = (np.zeros(b, int) for _ in range(4))
        self.ly, self.lx = np.zeros(b, int), np.zeros(b, int)
        self.br = np.zeros((b, 10, 10), bool)
        self.age = np.zeros(b, int)
        self._new(np.ones(b, bool))

    def _new(self, m):
        k = int(m.sum())
        self.pad[m] = 4
        self.y[m], self.x[m] = 3, self.rng.integers(0, 10, k)
        self.dy[m], self.dx[m] = 1, self.rng.choice([-1, 1], k)
        self.ly[m], self.lx[m] = self.y[m], self.x[m]
        self.br[m] = False
        self.br[m, 1:4] = True
        self.age[m] = 0

    def frame(self):
        f = np.zeros((self.b, 4, 10, 10), np.float32)
        f[self.ar, 0, 9, self.pad] = 1
        f[self.ar, 1, self.y, self.x] = 1
        f[self.ar, 2, self.ly, self.lx] = 1
        f[:, 3] = self.br
        return f

    def act(self, a):
        self.pad = np.clip(self.pad + a - 1, 0, 9)
        self.ly, self.lx = self.y.copy(), self.x.copy()
        nx = self.x + self.dx
        side = (nx < 0) | (nx > 9)
        self.dx = np.where(side, -self.dx, self.dx)
        nx = np.clip(nx, 0, 9)
        ny = self.y + self.dy
        top = ny < 0
        ny = np.where(top, 0, ny)
        self.dy = np.where(top, 1, self.dy)
        hit = self.br[self.ar, ny, nx] & ~top
        pts = hit.astype(np.float32)
        self.br[self.ar[hit], ny[hit], nx[hit]] = False
        self.dy = np.where(hit, -self.dy, self.dy)
        ny = np.where(hit, self.y, ny)
        low = ny >= 9
        saved = low & ((nx == self.pad) | (self.x == self.pad))
        self.dy = np.where(saved, -1, self.dy)
        ny = np.where(low, np.where(saved, 8, 9), ny)
        self.y, self.x = ny, nx
        self.age += 1
        clear = ~self.br.any((1, 2))
        if clear.any():
            self.br[clear, 1:4] = True
        dead = (low & ~saved) | (self.age > 1000)
        if dead.any():
            self._new(dead)
        return self.frame(), pts, dead

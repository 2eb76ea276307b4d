import numpy as np

PLAN = """
#############
#     #     #
#     #     #
#           #
#     #     #
#     #     #
## ##### ####
#     #     #
#     #     #
#           #
#     #     #
#     #     #
#############
""".strip().split("\n")


class FourRooms:
    """batch of four-rooms with a key and a door goal. go(actions) -> (view, reward, ended, view_before_reset)"""
    MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])

    def __init__(self, n, seed=0, limit=120):
        self.wall = np.array([[ch == "#" for ch in row] for row in PLAN])
        self.free = np.argwhere(~self.wall)
        self.n, self.limit = n, limit
        self.rng = np.random.default_rng(seed)
        self.pos, self.key, self.goal = (np.zeros((n, 2), int) for _ in range(3))
        self.has = np.zeros(n, bool)
        self.age = np.zeros(n, int)
        self.pad = np.pad(self.wall, 2, constant_values=True).astype(np.float32)
        self.off = np.stack(np.meshgrid(np.arange(5), np.arange(5), indexing="ij"), -1).reshape(-1, 2)
        self.obs_dim = 25 + 7

    def start(self):
        self._fresh(np.arange(self.n))
        self.age[:] = self.rng.integers(0, self.limit, self.n)
        return self.view()

    def _fresh(self, ix):
        f = self.free[self.rng.integers(0, len(self.free), (len(ix), 3))]
        self.pos[ix], self.key[ix], self.goal[ix] = f[:, 0], f[:, 1], f[:, 2]
        self.has[ix] = False
        self.age[ix] = 0

    def view(self):
        o = np.empty((self.n, self.obs_dim), np.float32)
        cells = self.pos[:, None, :] + self.off
        o[:, :25] = self.pad[cells[..., 0], cells[..., 1]]
        o[:, 25:27] = self.pos / 12.0
        o[:, 27:29] = (self.key - self.pos) / 12.0
        o[:, 29:31] = (self.goal - self.pos) / 12.0
        o[:, 31] = self.has
        return o

    def go(self, a):
        new = self.pos + self.MOVES[a]
        ok = ~self.wall[new[:, 0], new[:, 1]]
        self.pos[ok] = new[ok]
        self.age += 1
        r = np.full(self.n, -0.01, np.float32)
        got = ~self.has & (self.pos == self.key).all(1)
        self.has |= got
        r[got] += 0.5
        won = self.has & (self.pos == self.goal).all(1)
        r[won] += 1.0
        late = self.age >= self.limit
        end = won | late
        before = self.view()
        if end.any():
            self._fresh(np.nonzero(end)[0])
            return self.view(), r, won, end, before
        return before, r, won, end, before

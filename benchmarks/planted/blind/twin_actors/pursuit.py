import numpy as np


class Pursuit:
    """B games: catch the runner on a torus with drifting wind. discrete thrust in 8 directions + nothing"""
    G = 12
    OBS, ACT = (4, G, G), 9
    ANG = np.arange(8) * np.pi / 4
    THRUST = np.concatenate([np.zeros((1, 2)), np.stack([np.cos(ANG), np.sin(ANG)], -1)]).astype(np.float32)

    def __init__(self, b, seed):
        self.b, self.rows = b, np.arange(b)
        self.rng = np.random.default_rng(seed)
        self.me = np.zeros((b, 4), np.float32)
        self.it = np.zeros((b, 4), np.float32)
        self.wind = np.zeros((b, 2), np.float32)
        self.age = np.zeros(b, np.int32)
        self.fresh(np.ones(b, bool))
        self.age[:] = self.rng.integers(0, 120, b)

    def fresh(self, m):
        k = int(m.sum())
        self.me[m] = np.concatenate([self.rng.random((k, 2)), np.zeros((k, 2))], 1)
        self.it[m] = np.concatenate([self.rng.random((k, 2)), 0.02 * self.rng.standard_normal((k, 2))], 1)
        self.wind[m] = 0.003 * self.rng.standard_normal((k, 2))
        self.age[m] = 0

    def observe(self):
        # planes: me, runner, and both of them one tick ago
        f = np.zeros((self.b, 4, self.G, self.G), np.float32)
        cells = [(p[:, :2] * self.G).astype(np.int64) % self.G for p in (self.me, self.it)]
        cells += [((p[:, :2] - p[:, 2:]) * self.G).astype(np.int64) % self.G for p in (self.me, self.it)]
        for k, c in enumerate(cells):
            f[self.rows, k, c[:, 1], c[:, 0]] = 1.0
        return f

    def advance(self, a):
        self.me[:, 2:] = 0.9 * self.me[:, 2:] + 0.006 * self.THRUST[a] + self.wind
        self.it[:, 2:] += 0.002 * self.rng.standard_normal((self.b, 2), dtype=np.float32)
        np.clip(self.it[:, 2:], -0.03, 0.03, out=self.it[:, 2:])
        for p in (self.me, self.it):
            p[:, :2] = (p[:, :2] + p[:, 2:]) % 1.0
        d = self.it[:, :2] - self.me[:, :2]
        d -= np.round(d)
        r = np.sqrt((d * d).sum(1))
        caught = r < 0.06
        rew = (caught * 1.0 - 0.02 * r).astype(np.float32)
        self.age += 1
        over = caught | (self.age >= 120)
        if over.any():
            self.fresh(over)
        return rew, over, caught

import numpy as np


class Corridors:
    """a signal is shown at the start, the way to turn at the junction; walking on is right everywhere else"""

    n_actions = 3  # on, left, right
    obs_dim = 5

    def __init__(self, n, length, seed=0):
        self.n, self.length = n, length
        self.rng = np.random.default_rng(seed)
        self.walls = np.zeros((n, 2), np.float32)

    def reset(self):
        self.t = 0
        self.signal = self.rng.integers(0, 2, self.n)
        self.offset = np.zeros(self.n, np.float32)
        return self._obs()

    def _obs(self):
        o = np.zeros((self.n, self.obs_dim), np.float32)
        if self.t == 0:
            o[np.arange(self.n), self.signal] = 1.0
        o[:, 2] = self.t == self.length - 1
        o[:, 3] = self.offset
        o[:, 4] = self.rng.random(self.n, dtype=np.float32)
        return o

    def step(self, a):
        side = (a == 2).astype(np.float32) - (a == 1)
        if self.t == self.length - 1:
            r = np.where(a == self.signal + 1, 1.0, -0.3).astype(np.float32)
        else:
            self.offset = np.clip(self.offset + 0.2 * side, -1, 1)
            r = (-0.01 * np.abs(self.offset) - 0.01 * (a != 0)).astype(np.float32)
        self.t += 1
        return self._obs(), r

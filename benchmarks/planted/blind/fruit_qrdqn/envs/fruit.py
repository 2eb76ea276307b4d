import numpy as np


class FruitField:
    """n baskets catching falling fruit (good) and stones (bad), all at once in numpy.

    step(a) -> obs, reward, done   (auto reset, obs is already the new episode's when done)
    """
    W, H, K = 12.0, 15.0, 4
    N_ACTIONS = 3

    def __init__(self, n, seed=0):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros(n, np.float32)
        self.items = np.zeros((n, self.K, 4), np.float32)   # x, y, speed, kind(+1/-1)
        self.t = np.zeros(n, np.int64)
        self.obs_dim = 1 + self.K * 4

    def reset(self):
        self.x[:] = self.W / 2
        self.t[:] = self.rng.integers(0, 200, self.n)   # not all in phase
        self._spawn(np.ones((self.n, self.K), bool), top=False)
        return self._obs()

    def _spawn(self, mask, top=True):
        m = int(mask.sum())
        if not m:
            return
        new = np.empty((m, 4), np.float32)
        new[:, 0] = self.rng.random(m) * self.W
        new[:, 1] = self.H if top else self.rng.random(m) * self.H
        new[:, 2] = 0.3 + 0.5 * self.rng.random(m)
        new[:, 3] = np.where(self.rng.random(m) < 0.65, 1.0, -1.0)
        self.items[mask] = new

    def _obs(self):
        o = np.empty((self.n, self.obs_dim), np.float32)
        o[:, 0] = self.x / self.W
        it = self.items / np.array([self.W, self.H, 1.0, 1.0], np.float32)
        o[:, 1:] = it.reshape(self.n, -1)
        return o

    def step(self, a):
        self.x = np.clip(self.x + (np.asarray(a) - 1) * 0.7, 0, self.W).astype(np.float32)
        self.items[:, :, 1] -= self.items[:, :, 2]
        low = self.items[:, :, 1] <= 0
        hit = low & (np.abs(self.items[:, :, 0] - self.x[:, None]) < 1.0)
        r = (hit * self.items[:, :, 3]).sum(1).astype(np.float32)
        self._spawn(low)
        self.t += 1
        done = self.t >= 200
        if done.any():
            self.t[done] = 0
            self.x[done] = self.W / 2
        return self._obs(), r, done

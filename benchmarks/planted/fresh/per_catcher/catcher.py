import numpy as np


class Catcher:
    """falling fruit, a basket of three cells; good fruit +1, rotten fruit -1"""

    def __init__(self, width=12, height=16, n_fruit=3, seed=None):
        self.w, self.h, self.n = width, height, n_fruit
        self.rng = np.random.default_rng(seed)
        self.obs_size = 1 + 4 * n_fruit
        self.action_count = 3

    def _spawn(self, i, y=None):
        self.x[i] = self.rng.integers(self.w)
        self.y[i] = self.h if y is None else y
        self.kind[i] = 1.0 if self.rng.random() < 0.7 else -1.0

    def reset(self):
        self.pos = self.w // 2
        self.x = [0] * self.n
        self.y = [0] * self.n
        self.kind = [1.0] * self.n
        for i in range(self.n):
            self._spawn(i, self.h - i * (self.h // self.n))
        self.t = 0
        return self.observe()

    def observe(self):
        o = [self.pos / self.w]
        for i in range(self.n):
            o += [self.x[i] / self.w, self.y[i] / self.h, self.kind[i], (self.x[i] - self.pos) / self.w]
        return np.array(o, dtype=np.float32)

    def step(self, action):
        self.pos = min(max(self.pos + action - 1, 0), self.w - 1)
        reward = 0.0
        for i in range(self.n):
            self.y[i] -= 1
            if self.y[i] <= 0:
                if abs(self.x[i] - self.pos) <= 1:
                    reward += self.kind[i]
                self._spawn(i)
        self.t += 1
        return self.observe(), reward, self.t >= 300, {}

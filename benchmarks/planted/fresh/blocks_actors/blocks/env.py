import numpy as np


class BlockWorld:
    """24x24 pixel world: one runner, coins, walls. Image observation (3, 24, 24) uint8."""
    SIZE = 24
    N_ACTIONS = 4

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        n = self.SIZE
        self.img = np.zeros((3, n, n), np.uint8)
        self.img[0] = (self.rng.random((n, n)) < 0.12) * 255
        self.img[1] = (self.rng.random((n, n)) < 0.05) * 255
        self.pos = [n // 2, n // 2]
        self.img[:2, n // 2, n // 2] = 0
        self.img[2, n // 2, n // 2] = 255
        self.t = 0
        return self.img.copy()

    def step(self, a):
        dy, dx = ((-1, 0), (1, 0), (0, -1), (0, 1))[a]
        y, x = self.pos
        ny, nx = min(max(y + dy, 0), self.SIZE - 1), min(max(x + dx, 0), self.SIZE - 1)
        reward = -0.01
        if not self.img[0, ny, nx]:
            self.img[2, y, x] = 0
            self.img[2, ny, nx] = 255
            self.pos = [ny, nx]
            if self.img[1, ny, nx]:
                self.img[1, ny, nx] = 0
                reward = 1.0
        self.t += 1
        return self.img.copy(), reward, self.t >= 120, {}

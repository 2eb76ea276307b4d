import numpy as np


class Catcher:
    """48x48 grey pixels: a tray, three balls. step() gives (frame, reward, done), reset() gives the frame."""
    side = 48
    actions = (-2, 0, 2)

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.x, self.t = self.side // 2, 0
        self.balls = [self._ball(y) for y in (0, 12, 24)]
        return self.draw()

    def _ball(self, y):
        return [int(self.rng.integers(3, self.side - 3)), y]

    def draw(self):
        f = np.zeros((self.side, self.side), np.uint8)
        for bx, by in self.balls:
            f[by:by + 3, bx - 1:bx + 2] = 160
        f[-3:, self.x - 5:self.x + 6] = 255
        return f

    def step(self, a):
        self.x = min(max(self.x + self.actions[a], 6), self.side - 7)
        reward = 0.0
        for b in self.balls:
            b[1] += 1
            if b[1] >= self.side - 3:
                reward += 1.0 if abs(b[0] - self.x) <= 6 else -1.0
                b[:] = self._ball(0)
        self.t += 1
        return self.draw(), reward, self.t >= 250

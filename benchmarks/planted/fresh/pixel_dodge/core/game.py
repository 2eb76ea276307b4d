import numpy as np

SIDE = 36


class DodgeGame:
    """side view: walls with a gap come from the right, the ship moves up or down"""

    actions = ("stay", "up", "down")

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.frames = np.zeros((3, SIDE, SIDE), np.uint8)

    def reset(self):
        self.y = SIDE // 2
        self.walls = [[SIDE - 1, int(self.rng.integers(5, SIDE - 5))]]
        self.t = 0
        self.frames[:] = 0
        self._draw()
        return self.frames.copy()

    def _draw(self):
        self.frames[:-1] = self.frames[1:]
        f = self.frames[-1]
        f[:] = 0
        for x, gap in self.walls:
            f[:, x] = 160
            f[max(0, gap - 5):gap + 6, x] = 0
        f[self.y - 1:self.y + 2, 3:6] = 255

    def step(self, a):
        self.y = int(np.clip(self.y + (0, -2, 2)[a], 1, SIDE - 2))
        reward, dead = 0.0, False
        for w in self.walls:
            w[0] -= 1
            if 3 <= w[0] < 6 and abs(w[1] - self.y) > 5:
                dead = True
            if w[0] == 2:
                reward = 1.0
        self.walls = [w for w in self.walls if w[0] >= 0]
        if self.t % 14 == 13:
            self.walls.append([SIDE - 1, int(self.rng.integers(5, SIDE - 5))])
        self.t += 1
        self._draw()
        return self.frames.copy(), (-1.0 if dead else reward), dead or self.t >= 400, {}

"""A sweeping robot on an open floor. Plain class: obs = reset(); obs, reward, info = step(action)."""
import math

import numpy as np

CELLS = 96
REACH = 2


class Sweeper:
    obs_dim = 13
    act_dim = 2

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.x, self.y = self.rng.uniform(20, CELLS - 20, size=2).tolist()
        self.heading = float(self.rng.uniform(0, 2 * math.pi))
        self.speed = 0.0
        self.floor = np.zeros((CELLS, CELLS))
        self._sweep()
        return self._observe()

    def _sweep(self):
        i, j = int(self.y), int(self.x)
        patch = self.floor[max(i - REACH, 0):i + REACH + 1, max(j - REACH, 0):j + REACH + 1]
        fresh = patch.size - float(patch.sum())
        patch[:] = 1.0
        return fresh

    def _observe(self):
        """Pose and, for nine directions, whether the floor ten cells away is clean (walls count as clean)."""
        obs = [self.x / CELLS, self.y / CELLS, math.sin(self.heading), math.cos(self.heading)]
        for k in range(-4, 5):
            a = self.heading + 0.5 * k
            i, j = int(self.y + 10 * math.sin(a)), int(self.x + 10 * math.cos(a))
            inside = 0 <= i < CELLS and 0 <= j < CELLS
            obs.append(self.floor.item(i, j) if inside else 1.0)
        return np.array(obs, dtype=np.float32)

    def step(self, action):
        turn, throttle = action.tolist()
        self.heading += 0.5 * turn
        self.speed = 0.7 * self.speed + 0.3 * (1.0 + throttle) * 2.0
        x, y = self.x + self.speed * math.cos(self.heading), self.y + self.speed * math.sin(self.heading)
        bumped = not (1 <= x < CELLS - 1 and 1 <= y < CELLS - 1)
        self.x, self.y = min(max(x, 1.0), CELLS - 1.01), min(max(y, 1.0), CELLS - 1.01)
        reward = 0.05 * self._sweep() - (0.3 if bumped else 0.0)
        info = {"floor": self.floor.copy(), "pose": (self.x, self.y, self.heading), "bumped": bumped}
        return self._observe(), reward, info

from collections import deque

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SIZE = 32


class Catch(gym.Env):
    """Fruits fall, the basket moves. The observation is the last 3 frames, uint8."""

    def __init__(self, fruits=40):
        self.fruits = fruits
        self.observation_space = spaces.Box(0, 255, (3, SIZE, SIZE), np.uint8)
        self.action_space = spaces.Discrete(3)

    def _frame(self):
        f = np.zeros((SIZE, SIZE), np.uint8)
        f[self.fy:self.fy + 2, self.fx:self.fx + 2] = 255
        f[-2:, self.bx:self.bx + 6] = 160
        return f

    def _drop(self):
        self.fx, self.fy = int(self.np_random.integers(0, SIZE - 2)), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bx, self.left = SIZE // 2 - 3, self.fruits
        self._drop()
        self.frames = deque([self._frame()] * 3, maxlen=3)
        return np.stack(self.frames), {}

    def step(self, action):
        self.bx = min(max(self.bx + 3 * (int(action) - 1), 0), SIZE - 6)
        self.fy += 3
        r = 0.0
        if self.fy >= SIZE - 3:
            r = 1.0 if self.bx - 1 <= self.fx <= self.bx + 5 else -1.0
            self.left -= 1
            self._drop()
        self.frames.append(self._frame())
        return np.stack(self.frames), r, self.left == 0, False, {}

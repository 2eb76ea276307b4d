import gymnasium as gym
import numpy as np
from gymnasium import spaces

S = 48


class Catcher(gym.Env):
    """fruit falls, paddle catches. one uint8 frame 48x48, channel first. three lives"""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, max_steps=600, render_mode=None):
        self.render_mode = render_mode
        self.max_steps = max_steps
        self.observation_space = spaces.Box(0, 255, (1, S, S), np.uint8)
        self.action_space = spaces.Discrete(3)

    def _spawn(self):
        self.fx = float(self.np_random.integers(4, S - 4))
        self.fy = 2.0
        self.fv = float(self.np_random.uniform(0.8, 1.8))
        self.fd = float(self.np_random.uniform(-0.7, 0.7))

    def _frame(self):
        f = np.zeros((1, S, S), np.uint8)
        y, x, p = int(self.fy), int(self.fx), int(self.px)
        f[0, max(y - 2, 0):y + 2, max(x - 2, 0):x + 2] = 255
        f[0, S - 3:S - 1, max(p - 5, 0):p + 5] = 160
        f[0, 0, :self.lives * 6] = 90
        return f

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.px, self.lives, self.t = S / 2, 3, 0
        self._spawn()
        return self._frame(), {}

    def step(self, a):
        self.t += 1
        self.px = min(max(self.px + (int(a) - 1) * 1.6, 4), S - 5)
        self.fy += self.fv
        self.fx += self.fd
        if self.fx < 3 or self.fx > S - 4:
            self.fd = -self.fd
        r = 0.0
        if self.fy >= S - 4:
            if abs(self.fx - self.px) < 6.5:
                r = 1.0
            else:
                r = -1.0
                self.lives -= 1
            self._spawn()
        return self._frame(), r, self.lives <= 0, self.t >= self.max_steps, {}

    def render(self):
        return np.repeat(self._frame().transpose(1, 2, 0), 3, axis=2)

import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class GliderEnv(gym.Env):
    """Point-mass glider looking for thermals and staying aloft."""

    metadata = {"render_modes": ["rgb_array"]}
    DT = 0.25

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        hi = np.full(11, 20.0, np.float32)
        self.observation_space = spaces.Box(-hi, hi)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.h = 0.0, 0.0, 300.0
        self.psi = float(self.np_random.uniform(-math.pi, math.pi))
        self.v, self.bank = 16.0, 0.0
        self.cx, self.cy = (float(q) for q in self.np_random.uniform(-120, 120, 2))
        self.strength = float(self.np_random.uniform(2.0, 4.0))
        self.vario = 0.0
        return self._obs(), {}

    def _lift(self, x, y):
        d2 = (x - self.cx) ** 2 + (y - self.cy) ** 2
        return self.strength * math.exp(-d2 / 3600.0) - 0.3

    def _obs(self):
        dx, dy = self.cx - self.x, self.cy - self.y
        return np.array([dx / 100, dy / 100, math.cos(self.psi), math.sin(self.psi), (self.v - 16) / 4, self.bank,
                         (self.h - 300) / 100, self.vario, self.strength - 3, math.hypot(dx, dy) / 100,
                         self._lift(self.x, self.y)], np.float32)

    def render(self):
        return np.zeros((64, 64, 3), np.uint8)

    def step(self, action):
        self.bank = max(-0.9, min(0.9, self.bank + 0.2 * float(action[0])))
        self.v = max(10.0, min(26.0, self.v + 0.8 * float(action[1])))
        self.psi += 9.81 * math.tan(self.bank) / self.v * self.DT
        self.x += self.v * math.cos(self.psi) * self.DT
        self.y += self.v * math.sin(self.psi) * self.DT
        sink = 0.7 + 0.004 * (self.v - 15.0) ** 2 + 0.8 * (1 / math.cos(self.bank) - 1)
        self.vario = self._lift(self.x, self.y) - sink
        self.h += self.vario * self.DT
        crashed = self.h < 100
        lost = math.hypot(self.x - self.cx, self.y - self.cy) > 600
        return self._obs(), 0.1 * self.vario - 5.0 * crashed, crashed or lost, False, {}

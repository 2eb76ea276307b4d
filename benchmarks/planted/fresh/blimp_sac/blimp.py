import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Blimp(gym.Env):
    """Hold a small airship over a mast in a slowly turning wind."""

    def __init__(self, horizon=400):
        self.horizon = horizon
        self.observation_space = spaces.Box(-20, 20, (8,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def _obs(self):
        return np.array(
            [self.x, self.y, self.z, self.vx, self.vy, self.vz, math.cos(self.wind), math.sin(self.wind)], np.float32
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.z = (float(v) for v in self.np_random.uniform(-3, 3, 3))
        self.vx = self.vy = self.vz = 0.0
        self.wind = float(self.np_random.uniform(0, 2 * math.pi))
        self.t = 0
        return self._obs(), {}

    def step(self, a):
        self.t += 1
        ax, ay, az = (float(v) for v in a)
        wx, wy = 0.4 * math.cos(self.wind), 0.4 * math.sin(self.wind)
        self.vx += 0.1 * (ax - 0.5 * (self.vx - wx))
        self.vy += 0.1 * (ay - 0.5 * (self.vy - wy))
        self.vz += 0.1 * (az - 0.5 * self.vz)
        self.x += 0.1 * self.vx
        self.y += 0.1 * self.vy
        self.z += 0.1 * self.vz
        self.wind += 0.01
        d = math.sqrt(self.x ** 2 + self.y ** 2 + self.z ** 2)
        r = -0.1 * d - 0.01 * (ax * ax + ay * ay + az * az)
        return self._obs(), r, d > 12, self.t >= self.horizon, {}

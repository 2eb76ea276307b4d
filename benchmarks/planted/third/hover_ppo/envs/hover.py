"""Planar drone that has to hold a way-point in gusty wind."""
import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class HoverEnv(gym.Env):
    metadata = {"render_modes": []}
    DT, G, MASS, ARM, INERTIA = 0.02, 9.81, 0.6, 0.2, 0.012

    def __init__(self, max_thrust: float = 6.0, wind: float = 0.4):
        self.max_thrust, self.wind = max_thrust, wind
        high = np.full(9, np.inf)
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        rng = self.np_random
        self.x, self.z = rng.uniform(-1, 1), rng.uniform(-1, 1)
        self.vx = self.vz = self.om = 0.0
        self.th = rng.uniform(-0.2, 0.2)
        self.gust = 0.0
        return self._obs(), {}

    def step(self, action):
        left = float(action[0]) * self.max_thrust
        right = float(action[1]) * self.max_thrust
        self.gust = 0.98 * self.gust + self.wind * 0.2 * self.np_random.standard_normal()
        total = (left + right) / self.MASS
        s, c = math.sin(self.th), math.cos(self.th)
        self.vx += (-total * s + self.gust - 0.1 * self.vx) * self.DT
        self.vz += (total * c - self.G - 0.1 * self.vz) * self.DT
        self.om += ((right - left) * self.ARM / self.INERTIA - 0.5 * self.om) * self.DT
        self.x += self.vx * self.DT
        self.z += self.vz * self.DT
        self.th += self.om * self.DT
        dist = math.hypot(self.x, self.z)
        crashed = dist > 4.0 or abs(self.th) > 1.4
        reward = 1.0 - 0.5 * dist - 0.05 * abs(self.om) - 0.02 * (left + right) / self.max_thrust
        if crashed:
            reward -= 20.0
        return self._obs(), reward, crashed, False, {}

    def _obs(self):
        return np.array([self.x, self.z, self.vx, self.vz, math.sin(self.th), math.cos(self.th), self.om,
                         self.gust, math.hypot(self.x, self.z)])

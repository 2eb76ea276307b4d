import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Arm3(gym.Env):
    """3 joint planar arm, reach a moving target. obs keeps the last K joint states (delay on the real arm)."""

    L = np.array([0.5, 0.4, 0.3])

    def __init__(self, hist=10, horizon=200, noise=0.01):
        self.hist, self.horizon, self.noise = hist, horizon, noise
        self.observation_space = spaces.Box(-np.inf, np.inf, (hist * 6 + 4,), np.float32)
        self.action_space = spaces.Box(-1, 1, (3,), np.float32)

    def tip(self):
        c = np.cumsum(self.q)
        return np.array([np.dot(self.L, np.cos(c)), np.dot(self.L, np.sin(c))])

    def _o(self):
        return np.concatenate((self.h.ravel(), self.target, self.tip())).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-1.5, 1.5, 3)
        self.v = np.zeros(3)
        self.ph = self.np_random.uniform(0, 6.28)
        self.rad = self.np_random.uniform(0.4, 1.0)
        self.target = self.rad * np.array([np.cos(self.ph), np.sin(self.ph)])
        self.h = np.tile(np.concatenate((self.q, self.v)), (self.hist, 1))
        self.t = 0
        return self._o(), {}

    def step(self, a):
        self.v = 0.9 * self.v + 0.4 * np.clip(a, -1, 1)
        self.q = self.q + 0.05 * self.v
        self.ph += 0.02
        self.target = self.rad * np.array([np.cos(self.ph), np.sin(self.ph)])
        self.h[:-1] = self.h[1:]
        self.h[-1, :3] = self.q + self.noise * self.np_random.standard_normal(3)
        self.h[-1, 3:] = self.v
        self.t += 1
        d = self.tip() - self.target
        dist = float(np.sqrt(d @ d))
        r = -dist - 0.02 * float(a @ a) + (0.5 if dist < 0.05 else 0.0)
        return self._o(), r, False, self.t >= self.horizon, {"dist": dist}

import math

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Crane(gym.Env):
    """Trolley with a hanging load; bring the load to a goal and let it hang still."""

    def __init__(self, dt=0.05, horizon=250):
        self.dt, self.horizon = dt, horizon
        self.observation_space = spaces.Box(-10, 10, (5,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _obs(self):
        return np.array([self.x, self.v, self.th, self.om, self.goal - self.x], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.th, self.om = 0.0, 0.0, 0.0, 0.0
        self.goal = float(self.np_random.uniform(-2, 2))
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        acc = (int(action) - 1) * 2.0 - 0.4 * self.v
        self.v += acc * self.dt
        self.x += self.v * self.dt
        self.om += (-9.81 * math.sin(self.th) - acc * math.cos(self.th) - 0.1 * self.om) * self.dt
        self.th += self.om * self.dt
        self.t += 1
        out = abs(self.x) > 4 or abs(self.th) > 1.2
        r = 0.1 - 0.05 * abs(self.goal - self.x) - 0.05 * abs(self.th) - (2.0 if out else 0.0)
        return self._obs(), r, out, self.t >= self.horizon, {}

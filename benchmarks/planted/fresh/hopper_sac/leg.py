import math

import numpy as np
import gymnasium as gym


class HoppingLeg(gym.Env):
    """Spring-loaded leg in the plane, a lot simpler than MuJoCo's."""

    def __init__(self, frames=4, limit=500):
        self.frames, self.limit = frames, limit
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def _obs(self):
        return np.array([self.z, self.vx, self.vz, math.sin(self.th), math.cos(self.th), self.om, self.leg, float(self.contact)],
                        dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        u = self.np_random.uniform(-0.05, 0.05, 3)
        self.x, self.z, self.vx, self.vz = 0.0, 1.2 + float(u[0]), float(u[1]), 0.0
        self.th, self.om, self.leg, self.contact, self.t = float(u[2]), 0.0, 0.0, False, 0
        return self._obs(), {}

    def step(self, action):
        a0, a1 = float(action[0]), float(action[1])
        x0, dt = self.x, 0.01
        for _ in range(self.frames):
            foot = self.z - math.cos(self.th)
            self.contact = foot < 0
            fz = fx = 0.0
            if self.contact:
                f = -200 * foot * (1 + 0.5 * a0) - 4 * self.vz
                fz, fx = f * math.cos(self.th), f * math.sin(self.th) - 2 * self.vx
            self.vx += dt * fx
            self.vz += dt * (fz - 9.81)
            self.om += dt * (6 * a1 - 1.0 * self.om)
            self.x += dt * self.vx
            self.z += dt * self.vz
            self.th += dt * self.om
        self.leg = a0
        self.t += 1
        fell = self.z < 0.5 or abs(self.th) > 1.0 or self.z > 3
        r = 1.0 + (self.x - x0) / (dt * self.frames) - 0.01 * (a0 * a0 + a1 * a1)
        return self._obs(), r, fell, self.t >= self.limit, {}

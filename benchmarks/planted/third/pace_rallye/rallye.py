"""Rally stage with pace notes: the co-driver reads the next corner a few metres ahead, once; the driver has to remember it.

All cars drive in numpy at the same time and share one clock, so that all episodes have the same length.
"""
import numpy as np


class RallyeField:
    obs_dim = 14
    act_dim = 2

    def __init__(self, cars=32, horizon=64, seed=0):
        self.cars, self.horizon = cars, horizon
        self.rng = np.random.default_rng(seed)

    def reset(self):
        n, h = self.cars, self.horizon
        corner = self.rng.integers(-3, 4, size=(n, h // 8 + 3))
        self.curve = 0.25 * np.repeat(corner, 8, axis=1).astype(np.float32)
        self.notes = np.zeros((n, h + 16, 7), dtype=np.float32)
        starts = np.arange(0, h + 8, 8)
        self.notes[np.arange(n)[:, None], starts, corner[:, 1:len(starts) + 1] + 3] = 1.0
        self.speed = np.full(n, 0.5, dtype=np.float32)
        self.offset = np.zeros(n, dtype=np.float32)
        self.angle = np.zeros(n, dtype=np.float32)
        self.last = np.zeros((n, 2), dtype=np.float32)
        self.t = 0
        return self._observe()

    def _observe(self):
        obs = np.empty((self.cars, self.obs_dim), dtype=np.float32)
        obs[:, :7] = self.notes[:, self.t]
        obs[:, 7], obs[:, 8], obs[:, 9] = self.speed, self.offset, self.angle
        obs[:, 10:12] = self.last
        obs[:, 12] = (self.t % 8) / 8.0
        obs[:, 13] = self.t / self.horizon
        return obs

    def step(self, action):
        steer, gas = np.clip(action, -1.0, 1.0).T
        curve = self.curve[:, self.t]
        self.speed = np.clip(self.speed + 0.1 * gas - 0.02 * self.speed, 0.1, 1.5)
        grip = 1.0 / (1.0 + np.maximum(self.speed * np.abs(curve) - 0.5, 0.0))
        self.angle = 0.8 * self.angle + 0.3 * (steer * grip - curve * self.speed)
        self.offset = np.clip(self.offset + self.speed * self.angle, -2.0, 2.0)
        off_road = np.abs(self.offset) > 1.0
        self.speed = np.where(off_road, 0.6 * self.speed, self.speed)
        reward = self.speed - 0.3 * self.offset**2 - 0.5 * off_road
        self.last = np.stack([steer, gas], axis=1)
        self.t += 1
        return self._observe(), reward.astype(np.float32), self.t == self.horizon

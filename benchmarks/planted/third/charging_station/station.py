"""EV charging station with four plugs and a shared grid connection (15-minute slots)."""
import math

import gymnasium as gym
import numpy as np

PLUGS = 4


class ChargingStation(gym.Env):
    def __init__(self, grid_kw=60.0, plug_kw=22.0, days=2):
        self.grid_kw = grid_kw
        self.plug_kw = plug_kw
        self.slots = 96 * days
        self.action_space = gym.spaces.Box(-1, 1, (PLUGS,), np.float32)
        self.observation_space = gym.spaces.Box(-5, 5, (3 * PLUGS + 4,), np.float32)

    def _price(self, slot):
        h = (slot % 96) / 4.0
        return 0.22 + 0.08 * math.sin((h - 14.0) / 24.0 * 2 * math.pi) + self.price_shift

    def _obs(self):
        out = []
        for need, left in zip(self.need, self.left):
            out += [1.0 if left > 0 else 0.0, need / 60.0, left / 40.0]
        w = 2 * math.pi * (self.slot % 96) / 96
        out += [math.sin(w), math.cos(w), self._price(self.slot) * 4, self.base_load / self.grid_kw]
        return np.array(out, np.float32)

    def _arrivals(self):
        for i in range(PLUGS):
            if self.left[i] <= 0 and self.np_random.random() < 0.12:
                self.need[i] = float(self.np_random.uniform(10, 50))
                self.left[i] = int(self.np_random.integers(6, 40))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.slot = int(self.np_random.integers(96))
        self.t = 0
        self.price_shift = float(self.np_random.uniform(-0.04, 0.04))
        self.base_load = 10.0
        self.need = [0.0] * PLUGS
        self.left = [0] * PLUGS
        self._arrivals()
        return self._obs(), {}

    def step(self, action):
        kw = [max(0.0, 0.5 * (float(a) + 1.0)) * self.plug_kw if l > 0 else 0.0 for a, l in zip(action, self.left)]
        self.base_load = 10.0 + 8.0 * math.sin(2 * math.pi * (self.slot % 96) / 96) ** 2
        total = sum(kw) + self.base_load
        overload = max(total - self.grid_kw, 0.0)
        scale = 1.0 if overload == 0 else (self.grid_kw - self.base_load) / max(sum(kw), 1e-6)
        delivered, missed = 0.0, 0.0
        for i in range(PLUGS):
            if self.left[i] <= 0:
                continue
            e = min(kw[i] * scale * 0.25, self.need[i])
            self.need[i] -= e
            delivered += e
            self.left[i] -= 1
            if self.left[i] == 0:
                missed += self.need[i]
                self.need[i] = 0.0
        reward = delivered * (0.45 - self._price(self.slot)) - 0.1 * missed - 0.05 * overload
        self.slot += 1
        self.t += 1
        self._arrivals()
        info = {"delivered_kwh": delivered, "missed_kwh": missed, "grid_kw": total, "overload_kw": overload}
        return self._obs(), reward, False, self.t >= self.slots, info

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class DispatchEnv(gym.Env):
    """ambulances on a line of zones; send one of K vehicles to the next call or hold"""

    def __init__(self, cfg):
        self.Z = cfg.get("zones", 12)
        self.K = cfg.get("vehicles", 4)
        self.T = cfg.get("calls", 100)
        self.observation_space = spaces.Dict({
            "fleet": spaces.Box(-1, 1, (self.K, 3), np.float32),
            "call": spaces.Box(0, 1, (3,), np.float32),
            "demand": spaces.Box(0, 1, (self.Z,), np.float32),
        })
        self.action_space = spaces.Discrete(self.K + 1)

    def _obs(self):
        fleet = np.empty((self.K, 3), np.float32)
        fleet[:, 0] = self.pos / self.Z
        fleet[:, 1] = np.minimum(self.busy, 10) / 10
        fleet[:, 2] = np.abs(self.pos - self.call) / self.Z
        return {"fleet": fleet,
                "call": np.array([self.call / self.Z, self.prio, self.t / self.T], np.float32),
                "demand": self.rate}

    def _next_call(self):
        self.call = int(np.searchsorted(self.cum, self.np_random.random()))
        self.call = min(self.call, self.Z - 1)
        self.prio = float(self.np_random.random() < 0.25)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        w = self.np_random.random(self.Z) ** 2
        self.cum = np.cumsum(w / w.sum())
        self.rate = (w / w.max()).astype(np.float32)
        self.pos = self.np_random.integers(0, self.Z, self.K).astype(float)
        self.busy = np.zeros(self.K)
        self.t = 0
        self._next_call()
        return self._obs(), {}

    def step(self, a):
        a = int(a)
        w = 3.0 if self.prio else 1.0
        if a == self.K:
            r = -0.6 * w
        elif self.busy[a] > 0:
            r = -(0.3 + 0.1 * self.busy[a]) * w
        else:
            d = abs(self.pos[a] - self.call)
            self.busy[a] = 2 + d
            self.pos[a] = self.call
            r = (0.5 - 0.12 * d) * w
        self.busy = np.maximum(self.busy - 1.5, 0)
        self.t += 1
        self._next_call()
        return self._obs(), r, False, self.t >= self.T, {}

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class PushPuck(gym.Env):
    """2d: a round pusher has to bring a puck to a goal"""

    def __init__(self, horizon=150):
        self.horizon = horizon
        self.observation_space = spaces.Box(-10, 10, (12,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def _o(self):
        return np.concatenate((self.p, self.pv, self.k, self.kv, self.k - self.p, self.goal - self.k)).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        u = self.np_random.uniform(-1, 1, 6)
        self.p, self.k, self.goal = u[:2], 0.6 * u[2:4], 0.8 * u[4:]
        self.pv, self.kv = np.zeros(2), np.zeros(2)
        self.t = 0
        return self._o(), {}

    def step(self, a):
        self.pv = 0.8 * self.pv + 0.25 * np.clip(a, -1, 1)
        self.p = np.clip(self.p + 0.1 * self.pv, -1.2, 1.2)
        d = self.k - self.p
        n = float(np.sqrt(d @ d)) + 1e-8
        if n < 0.2:
            u = d / n
            rel = max(float((self.pv - self.kv) @ u), 0.0)
            self.kv = self.kv + 1.4 * rel * u
            self.k = self.p + 0.2 * u
        self.kv = 0.93 * self.kv
        self.k = np.clip(self.k + 0.1 * self.kv, -1.2, 1.2)
        self.t += 1
        g = self.goal - self.k
        gd = float(np.sqrt(g @ g))
        r = -gd - 0.2 * n - 0.01 * float(a @ a)
        ok = gd < 0.06
        return self._o(), r + (3.0 if ok else 0.0), ok, self.t >= self.horizon, {"is_success": ok}

import numpy as np
from gymnasium import spaces


class PlanarArm:
    """three-link planar arm, torque control, reach a goal in the plane"""

    def __init__(self, seed=0, horizon=150):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon
        self.observation_space = spaces.Box(-np.inf, np.inf, (13,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.links = np.array([0.5, 0.4, 0.3])

    def reset(self):
        self.q = self.rng.uniform(-1.5, 1.5, 3)
        self.dq = np.zeros(3)
        r, th = self.rng.uniform(0.3, 1.1), self.rng.uniform(-np.pi, np.pi)
        self.goal = np.array([r * np.cos(th), r * np.sin(th)])
        self.t = 0
        return self._obs()

    def _tip(self):
        a = np.cumsum(self.q)
        return np.array([self.links @ np.cos(a), self.links @ np.sin(a)])

    def _obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq * 0.2, self.goal, self._tip() - self.goal]).astype(np.float32)

    def step(self, action):
        u = np.clip(action, -1, 1)
        self.dq = 0.92 * self.dq + 0.6 * u * np.array([1.0, 1.3, 1.6])
        self.q = (self.q + 0.05 * self.dq + np.pi) % (2 * np.pi) - np.pi
        self.t += 1
        o = self._obs()
        dist = float(np.hypot(o[-2], o[-1]))
        return o, -dist - 0.01 * float(u @ u) + (1.0 if dist < 0.05 else 0.0), self.t >= self.horizon, {"dist": dist}

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def _fk(q):
    x = np.cos(q[..., 0]) + np.cos(q[..., 0] + q[..., 1])
    y = np.sin(q[..., 0]) + np.sin(q[..., 0] + q[..., 1])
    return np.stack([x, y], -1)


class ArmVec:
    """two link arm, n copies. used for collecting"""
    obs_dim, act_dim = 8, 2

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.q = np.zeros((n, 2)); self.dq = np.zeros((n, 2)); self.goal = np.zeros((n, 2))
        self.t = np.zeros(n, int)

    def _new(self, m):
        k = int(m.sum())
        self.q[m] = self.rng.uniform(-np.pi, np.pi, (k, 2))
        self.dq[m] = 0
        rad = 0.4 + 1.4 * self.rng.random(k)
        ang = self.rng.uniform(-np.pi, np.pi, k)
        self.goal[m] = np.stack([rad * np.cos(ang), rad * np.sin(ang)], -1)
        self.t[m] = 0

    def reset(self):
        self._new(np.ones(self.n, bool))
        self.t[:] = self.rng.integers(0, 150, self.n)
        return self.obs()

    def obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq * 0.2, self.goal - _fk(self.q)], -1).astype(np.float32)

    def step(self, a):
        self.dq = 0.95 * self.dq + 0.4 * a
        self.q = self.q + 0.05 * self.dq
        d = np.linalg.norm(self.goal - _fk(self.q), axis=-1)
        r = (-d - 0.01 * (a ** 2).sum(-1) + (d < 0.1)).astype(np.float32)
        self.t += 1
        last = self.obs()
        trunc = self.t >= 150
        if trunc.any():
            self._new(trunc)
        return self.obs(), r, trunc, last


class ArmEnv(gym.Env):
    # single version, gym api, what the robot side uses too
    metadata = {"render_modes": []}

    def __init__(self):
        self.core = ArmVec(1, 0)
        self.observation_space = spaces.Box(-np.inf, np.inf, (ArmVec.obs_dim,), np.float32)
        self.action_space = spaces.Box(-1, 1, (ArmVec.act_dim,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.core.rng = np.random.default_rng(seed)
        self.core.reset()
        self.core.t[:] = 0
        return self.core.obs()[0], {}

    def step(self, a):
        _, r, trunc, last = self.core.step(np.asarray(a, np.float64)[None])
        return last[0], float(r[0]), False, bool(trunc[0]), {}

import gymnasium as gym
import numpy as np


class DepotEnv(gym.Env):
    """Spare-part depot. Every tick we may reorder one of a few bundles. Lost sales hurt.

    obs: stock, pipeline (4 lead-time slots), last demand, forecast -> flat vector
    """

    def __init__(self, n_items=48, lead=4, horizon=200, n_actions=9):
        self.n, self.lead, self.horizon = n_items, lead, horizon
        dim = n_items * (lead + 3)
        self.observation_space = gym.spaces.Box(-10, 10, (dim,), np.float32)
        self.action_space = gym.spaces.Discrete(n_actions)
        r = np.random.default_rng(12)
        self.base = r.uniform(0.3, 3.0, n_items).astype(np.float32)
        self.price = r.uniform(0.5, 2.0, n_items).astype(np.float32)
        self.bundles = np.zeros((n_actions, n_items), np.float32)
        for k in range(1, n_actions):
            self.bundles[k] = (r.random(n_items) < 0.45) * r.integers(1, 9, n_items)
        self.phase = r.uniform(0, 6.28, n_items).astype(np.float32)

    def _obs(self):
        fc = self.base * (1 + 0.6 * np.sin(0.1 * (self.t + 2) + self.phase))
        o = np.concatenate([self.stock * 0.05, self.pipe.ravel() * 0.1, self.last * 0.2, fc * 0.2])
        return np.clip(o, -10, 10).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.stock = self.base * 8
        self.pipe = np.zeros((self.lead, self.n), np.float32)
        self.last = self.base.copy()
        return self._obs(), {}

    def step(self, a):
        self.stock = np.minimum(self.stock + self.pipe[0], 60)
        self.pipe[:-1] = self.pipe[1:]
        self.pipe[-1] = self.bundles[int(a)]
        lam = self.base * (1 + 0.6 * np.sin(0.1 * self.t + self.phase))
        d = self.np_random.poisson(lam).astype(np.float32)
        sold = np.minimum(self.stock, d)
        self.stock = self.stock - sold
        self.last = d
        self.t += 1
        rew = float((self.price * sold).sum() - 0.02 * self.stock.sum() - 0.8 * (d - sold).sum() - 1.5 * (a > 0))
        return self._obs(), rew * 0.01, False, self.t >= self.horizon, {}

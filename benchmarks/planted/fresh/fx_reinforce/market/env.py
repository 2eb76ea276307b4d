import numpy as np

from .data import FEATURES, add_indicators, load_prices


class FxEnv:
    """flat / long / short on hourly bars, one random window of the history per episode"""

    n_actions = 3

    def __init__(self, path, window=8, length=120, cost=2e-5, seed=0):
        self.path = path
        self.window = window
        self.length = length
        self.cost = cost
        self.rng = np.random.default_rng(seed)
        self.obs_dim = window * len(FEATURES) + 2
        self.features = None
        self.close = None

    def reset(self):
        df = add_indicators(load_prices(self.path))
        self.features = df[FEATURES].to_numpy(dtype=np.float32)
        self.close = df["close"].to_numpy()
        self.t = int(self.rng.integers(self.window, len(self.close) - self.length - 1))
        self.end = self.t + self.length
        self.position = 0
        self.equity = 0.0
        return self._obs()

    def step(self, action):
        target = (0, 1, -1)[action]
        fee = self.cost * abs(target - self.position)
        self.position = target
        ret = self.close[self.t + 1] / self.close[self.t] - 1.0
        reward = self.position * ret - fee
        self.equity += reward
        self.t += 1
        done = self.t >= self.end or self.equity < -0.05
        return self._obs(), reward * 1e3, done, {"equity": self.equity}

    def _obs(self):
        w = self.features[self.t - self.window + 1:self.t + 1].ravel()
        return np.concatenate([w, np.array([self.position, self.equity * 100], dtype=np.float32)])

import gymnasium as gym
import numpy as np
import pandas as pd
from gymnasium import spaces

COLUMNS = ["ret", "mom5", "mom15", "mom60", "vol5", "vol15", "vol60", "rsi", "vz"]


class FxEnv(gym.Env):
    def __init__(self, df: pd.DataFrame, window=8, episode=480, fee=2e-5):
        self.df = df
        self.window, self.episode, self.fee = window, episode, fee
        feats = df[COLUMNS]
        feats = (feats - feats.mean()) / feats.std()
        self.x = np.ascontiguousarray(feats.clip(-5, 5).to_numpy(np.float32))
        self.close = df["close"].to_numpy(np.float64)
        self.observation_space = spaces.Box(-5, 5, (window * len(COLUMNS) + 2,), np.float32)
        self.action_space = spaces.Discrete(3)
        self.report = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.i = int(self.np_random.integers(self.window, len(self.x) - self.episode - 2))
        self.end = self.i + self.episode
        self.pos, self.equity = 0, 0.0
        self.trades = []
        return self._obs(), {}

    def _obs(self):
        o = np.empty(self.observation_space.shape, np.float32)
        o[:-2] = self.x[self.i - self.window + 1:self.i + 1].ravel()
        o[-2:] = self.pos, min(5.0, max(-5.0, self.equity * 10))
        return o

    def step(self, action):
        target = int(action) - 1
        cost = self.fee * abs(target - self.pos)
        if target != self.pos:
            self.trades.append((self.i, target, self.close[self.i]))
        self.pos = target
        pnl = self.pos * (self.close[self.i + 1] / self.close[self.i] - 1) - cost
        self.equity += pnl
        self.i += 1
        over = self.i >= self.end
        info = {}
        if over:
            info["trades"] = len(self.trades)
            self.report = pd.DataFrame(self.trades, columns=["bar", "side", "price"])
        return self._obs(), 1e3 * pnl, False, over, info

import gymnasium as gym
import numpy as np
import pandas as pd
from gymnasium import spaces

FEATS = ["ret", "vol", "rsi", "ma_fast", "ma_slow", "hour_sin", "hour_cos"]


def fake_history(n=40000, seed=0):
    # TODO swap for the real csv again when the broker export works
    rng = np.random.default_rng(seed)
    r = rng.standard_t(4, n) * 4e-4 + 2e-4 * np.sin(np.arange(n) / 311.0)
    price = 1.1 * np.exp(np.cumsum(r))
    df = pd.DataFrame({"close": price}, index=pd.date_range("2015-01-01", periods=n, freq="h"))
    return df


def add_features(df):
    df = df.copy()
    df["ret"] = df["close"].pct_change() * 1000
    df["vol"] = df["ret"].rolling(24).std()
    up = df["ret"].clip(lower=0).rolling(14).mean()
    dn = (-df["ret"].clip(upper=0)).rolling(14).mean()
    df["rsi"] = up / (up + dn + 1e-9) - 0.5
    df["ma_fast"] = (df["close"] / df["close"].rolling(12).mean() - 1) * 200
    df["ma_slow"] = (df["close"] / df["close"].rolling(96).mean() - 1) * 100
    h = df.index.hour.values
    df["hour_sin"] = np.sin(2 * np.pi * h / 24)
    df["hour_cos"] = np.cos(2 * np.pi * h / 24)
    return df.dropna()


class FxEnv(gym.Env):
    def __init__(self, df, window=16, ep_len=500, fee=2e-5, train=True):
        super().__init__()
        self.df = df
        self.window = window
        self.ep_len = ep_len
        self.fee = fee
        self.train = train
        self.action_space = spaces.Discrete(3)  # short / flat / long
        self.observation_space = spaces.Box(-20, 20, (window * len(FEATS) + 2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        lo, hi = self.window, len(self.df) - self.ep_len - 2
        self.start = int(self.np_random.integers(lo, hi)) if self.train else lo
        self.i = self.start
        self.pos = 0
        self.equity = 1.0
        self.trades = 0
        return self._state(), {}

    def _state(self):
        win = self.df[FEATS].iloc[self.i - self.window:self.i]
        x = win.values.astype(np.float32).ravel()
        return np.concatenate([x, np.array([self.pos, (self.equity - 1.0) * 50], dtype=np.float32)])

    def _price(self, i):
        return self.df["close"].iloc[i]

    def step(self, action):
        new = int(action) - 1
        cost = abs(new - self.pos) * self.fee
        if new != self.pos:
            self.trades += 1
        self.pos = new
        p0 = self._price(self.i - 1)
        p1 = self._price(self.i)
        pnl = self.pos * (p1 / p0 - 1.0) - cost
        self.equity *= 1.0 + pnl
        self.i += 1
        trunc = self.i - self.start >= self.ep_len
        dead = self.equity < 0.8
        info = {}
        if trunc or dead:
            info = {"equity": self.equity, "trades": self.trades}
        return self._state(), float(pnl * 1000), dead, trunc, info

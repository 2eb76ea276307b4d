# market as pure functions, no env object:   state, obs, r, done = step(state, action)
from typing import NamedTuple

import numpy as np
import pandas as pd

FEATS = ["ret1", "ret5", "ret20", "vol20", "rsi", "macd", "hour_sin", "hour_cos", "spread"]
LEN = 120            # bars per episode
COST = 0.00008


def make_df(n=60000, seed=11):
    rng = np.random.default_rng(seed)
    reg = np.repeat(rng.choice([-1.0, 0.0, 1.0], n // 200 + 1), 200)[:n]
    r = 0.00012 * reg + 0.0004 * rng.standard_normal(n)
    df = pd.DataFrame({"close": 1.1 * np.exp(np.cumsum(r))},
                      index=pd.date_range("2019-01-01", periods=n, freq="15min"))
    lc = np.log(df["close"])
    df["ret1"] = lc.diff()
    df["ret5"] = lc.diff(5)
    df["ret20"] = lc.diff(20)
    df["vol20"] = df["ret1"].rolling(20).std()
    up = df["ret1"].clip(lower=0).rolling(14).mean()
    dn = (-df["ret1"].clip(upper=0)).rolling(14).mean()
    df["rsi"] = up / (up + dn + 1e-12) - 0.5
    df["macd"] = df["close"].ewm(span=12).mean() - df["close"].ewm(span=26).mean()
    h = df.index.hour + df.index.minute / 60
    df["hour_sin"] = np.sin(2 * np.pi * h / 24)
    df["hour_cos"] = np.cos(2 * np.pi * h / 24)
    df["spread"] = 0.00005 + 0.00003 * rng.random(n)
    df = df.dropna()
    for c in FEATS:
        df[c + "_z"] = (df[c] - df[c].mean()) / df[c].std()
    return df


df = make_df()
ZF = [c + "_z" for c in FEATS]
OBS = len(ZF) + 3


class State(NamedTuple):
    t: int
    left: int
    pos: int          # -1 0 1
    entry: float
    pnl: float


def observe(state):
    x = np.empty(OBS, np.float32)
    x[:-3] = df.iloc[state.t][ZF].values
    x[-3] = state.pos
    x[-2] = state.left / LEN
    x[-1] = 100 * state.pnl
    return x


def reset(rng):
    t = int(rng.integers(0, len(df) - LEN - 2))
    s = State(t, LEN, 0, 0.0, 0.0)
    return s, observe(s)


def step(state, action):
    want = action - 1
    px = df.iloc[state.t]["close"]
    nx = df.iloc[state.t + 1]["close"]
    spread = df.iloc[state.t]["spread"]
    r = want * (nx / px - 1.0)
    entry = state.entry
    if want != state.pos:
        r -= abs(want - state.pos) * (COST + 0.5 * spread)
        entry = px
    left = state.left - 1
    s = State(state.t + 1, left, want, entry, state.pnl + r)
    return s, observe(s), 200.0 * r, left == 0

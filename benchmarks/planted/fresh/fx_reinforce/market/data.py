import numpy as np
import pandas as pd

FEATURES = ["ret1", "ret4", "ret24", "rsi", "macd", "atr", "volz", "hour_sin", "hour_cos"]


def load_prices(path):
    df = pd.read_csv(path, parse_dates=["time"])
    return df.set_index("time")


def add_indicators(df):
    c = df["close"]
    df["ret1"] = c.pct_change(1) * 1e3
    df["ret4"] = c.pct_change(4) * 5e2
    df["ret24"] = c.pct_change(24) * 2e2
    delta = c.diff()
    up = delta.clip(lower=0).ewm(alpha=1 / 14).mean()
    down = (-delta.clip(upper=0)).ewm(alpha=1 / 14).mean()
    df["rsi"] = 1 - 2 / (1 + up / (down + 1e-12))
    ema12 = c.ewm(span=12).mean()
    ema26 = c.ewm(span=26).mean()
    df["macd"] = (ema12 - ema26) / c * 1e3
    tr = np.maximum(df["high"] - df["low"], (df["high"] - c.shift()).abs())
    df["atr"] = tr.rolling(14).mean() / c * 1e3
    v = np.log(df["volume"])
    df["volz"] = (v - v.rolling(96).mean()) / (v.rolling(96).std() + 1e-6)
    h = df.index.hour
    df["hour_sin"] = np.sin(2 * np.pi * h / 24)
    df["hour_cos"] = np.cos(2 * np.pi * h / 24)
    return df.dropna()

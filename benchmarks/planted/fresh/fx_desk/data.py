import numpy as np
import pandas as pd


def make_candles(n=60_000, seed=4):
    rng = np.random.default_rng(seed)
    vol = 1e-4 * np.exp(0.5 * np.sin(np.arange(n) / 1440 * 2 * np.pi))
    close = 1.1 * np.exp(np.cumsum(rng.standard_normal(n) * vol))
    spread = rng.uniform(0.5e-4, 1.5e-4, n)
    idx = pd.date_range("2021-01-04", periods=n, freq="min")
    return pd.DataFrame({"close": close, "high": close + spread, "low": close - spread,
                         "volume": rng.gamma(2.0, 50.0, n)}, index=idx)


def add_indicators(df):
    df = df.copy()
    r = df["close"].pct_change()
    df["ret"] = r
    for w in (5, 15, 60):
        df[f"mom{w}"] = df["close"].pct_change(w)
        df[f"vol{w}"] = r.rolling(w).std()
    up = r.clip(lower=0).rolling(14).mean()
    dn = (-r.clip(upper=0)).rolling(14).mean()
    df["rsi"] = up / (up + dn) - 0.5
    df["vz"] = (df["volume"] - df["volume"].rolling(60).mean()) / df["volume"].rolling(60).std()
    return df.dropna()

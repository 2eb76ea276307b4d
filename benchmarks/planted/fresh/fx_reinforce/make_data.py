"""writes data/eurusd_h1.csv (synthetic, same layout as the broker's export)"""
import os
import numpy as np
import pandas as pd

def main(path="data/eurusd_h1.csv", n=6000, seed=7):
    rng = np.random.default_rng(seed)
    vol = 0.0006 * np.exp(np.cumsum(rng.normal(0, 0.02, n)).clip(-1.2, 1.2))
    close = 1.1 * np.exp(np.cumsum(rng.normal(0, 1, n) * vol))
    opn = np.r_[close[0], close[:-1]]
    high = np.maximum(opn, close) * (1 + np.abs(rng.normal(0, 1, n)) * vol * 0.5)
    low = np.minimum(opn, close) * (1 - np.abs(rng.normal(0, 1, n)) * vol * 0.5)
    df = pd.DataFrame({"time": pd.date_range("2021-01-04", periods=n, freq="h"),
                       "open": opn, "high": high, "low": low, "close": close,
                       "volume": rng.integers(200, 5000, n)})
    os.makedirs(os.path.dirname(path), exist_ok=True)
    df.round(6).to_csv(path, index=False)

if __name__ == "__main__":
    main()

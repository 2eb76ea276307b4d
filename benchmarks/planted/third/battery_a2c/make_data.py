"""Synthetic stand-in for the spot-market export (the real file may not leave the company)."""
import os

import numpy as np
import pandas as pd


def write_year(path, year=2023, seed=0):
    rng = np.random.default_rng(seed)
    idx = pd.date_range(f"{year}-01-01", f"{year}-12-31 23:00", freq="h")
    n = len(idx)
    h = np.arange(n)
    daily = 25 * np.sin((h % 24 - 8) / 24 * 2 * np.pi)
    season = 15 * np.cos(h / n * 2 * np.pi)
    noise = np.zeros(n)
    eps = rng.normal(0, 6, n)
    for i in range(1, n):
        noise[i] = 0.92 * noise[i - 1] + eps[i]
    price = 80 + daily + season + noise
    load = 40 + 10 * np.sin((h % 24 - 6) / 24 * 2 * np.pi) + rng.normal(0, 2, n)
    solar = np.maximum(np.sin((h % 24 - 6) / 12 * np.pi), 0) * rng.uniform(5, 25, n)
    df = pd.DataFrame({"time": idx, "price_eur": price.round(2), "load_mw": load.round(3), "solar_mw": solar.round(3)})
    os.makedirs(os.path.dirname(path), exist_ok=True)
    df.to_csv(path, index=False)


if __name__ == "__main__":
    write_year("data/spot_2023.csv")

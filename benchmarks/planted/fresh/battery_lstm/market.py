import numpy as np


def synth_prices(n_days=400, seed=0):
    """Hourly day-ahead prices, load and solar for a made-up region. [hours, 4]"""
    rng = np.random.default_rng(seed)
    t = np.arange(n_days * 24)
    hour = t % 24
    load = 1 + 0.3 * np.sin((hour - 8) / 24 * 2 * np.pi) + 0.1 * rng.standard_normal(len(t))
    sun = np.clip(np.sin((hour - 6) / 12 * np.pi), 0, None) * rng.uniform(0.3, 1.0, n_days).repeat(24)
    noise = np.zeros(len(t))
    e = rng.standard_normal(len(t)) * 0.15
    for i in range(1, len(t)):
        noise[i] = 0.9 * noise[i - 1] + e[i]
    price = 0.5 + 0.6 * load - 0.5 * sun + noise
    return np.stack([price, load, sun, np.sin(hour / 24 * 2 * np.pi)], 1).astype(np.float32)

"""Replenishment of several items with stochastic demand and a lead time."""
import numpy as np


class Warehouse:
    """Every day one order level (0..4) per batch of items; all warehouses advance together."""

    LEVELS = np.array([0.0, 0.5, 1.0, 1.5, 2.5], np.float32)

    def __init__(self, n_envs, items, lead_time, capacity, episode_len, seed):
        self.n, self.k, self.lead = n_envs, items, lead_time
        self.capacity, self.episode_len = capacity, episode_len
        self.rng = np.random.default_rng(seed)
        self.obs_dim = items * (2 + lead_time) + 2
        self.n_items, self.n_levels = items, len(self.LEVELS)
        self.stock = np.zeros((n_envs, items), np.float32)
        self.pipe = np.zeros((n_envs, lead_time, items), np.float32)
        self.mean = np.zeros((n_envs, items), np.float32)
        self.day = np.zeros(n_envs, np.int64)
        self.total = np.zeros(n_envs, np.float32)

    def _start(self, m):
        k = int(m.sum())
        if k:
            self.stock[m] = self.rng.uniform(2, 8, (k, self.k))
            self.pipe[m] = 0
            self.mean[m] = self.rng.uniform(1, 5, (k, self.k))
            self.day[m] = 0
            self.total[m] = 0

    def reset(self):
        self._start(np.ones(self.n, bool))
        return self._obs()

    def _obs(self):
        season = 2 * np.pi * self.day / 30
        return np.concatenate([
            self.stock / 10, self.mean / 5, self.pipe.reshape(self.n, -1) / 10,
            np.sin(season)[:, None], np.cos(season)[:, None]], 1).astype(np.float32)

    def step(self, levels):
        order = self.LEVELS[levels] * self.mean
        self.stock += self.pipe[:, 0]
        self.pipe[:, :-1] = self.pipe[:, 1:]
        self.pipe[:, -1] = order
        over = np.maximum(self.stock.sum(1) - self.capacity, 0)
        rate = self.mean * (1 + 0.4 * np.sin(2 * np.pi * self.day / 30))[:, None]
        demand = self.rng.poisson(rate).astype(np.float32)
        sold = np.minimum(demand, self.stock)
        self.stock -= sold
        reward = (1.0 * sold.sum(1) - 0.5 * (demand - sold).sum(1) - 0.05 * self.stock.sum(1) - 0.3 * over
                  - 0.4 * order.sum(1)) / 20
        self.day += 1
        self.total += reward
        done = self.day >= self.episode_len
        totals = self.total[done].copy()
        self._start(done)
        return self._obs(), reward.astype(np.float32), done, totals

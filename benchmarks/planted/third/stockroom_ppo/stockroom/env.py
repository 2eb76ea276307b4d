"""Stockroom with four products: order, wait for the lorry, sell, pay for the shelf space."""
import math
import random

import gymnasium as gym
import numpy as np
from gymnasium import spaces

PRODUCTS = 4
LOT = (12, 8, 20, 5)
PRICE = (3.0, 5.0, 1.5, 9.0)
COST = (1.8, 3.2, 0.8, 5.5)
HOLDING = (0.02, 0.04, 0.01, 0.06)
MEAN_DEMAND = (5.0, 3.0, 9.0, 1.6)
SHELF = 60


class StockroomEnv(gym.Env):
    """Action: a bit per product (order a lot or not), as one number."""

    metadata = {"render_modes": []}

    def __init__(self, days: int = 60, lead_time: int = 2):
        self.days, self.lead_time = days, lead_time
        self.observation_space = spaces.Box(-np.inf, np.inf, (3 * PRODUCTS + 2,), np.float32)
        self.action_space = spaces.Discrete(2 ** PRODUCTS)
        self._rng = random.Random()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self._rng.seed(seed)
        self.day = 0
        self.stock = [self._rng.randint(5, 30) for _ in range(PRODUCTS)]
        self.trend = [1.0] * PRODUCTS
        self.lorries = [[0] * PRODUCTS for _ in range(self.lead_time)]
        return self._observe(), {}

    def step(self, action):
        action = int(action)
        order = [LOT[i] if action >> i & 1 else 0 for i in range(PRODUCTS)]
        self.lorries.append(order)
        arrived = self.lorries.pop(0)
        season = 1.0 + 0.3 * math.sin(2 * math.pi * self.day / 30)
        profit = -1.0 if action else 0.0                       # the lorry itself
        for i in range(PRODUCTS):
            have = min(self.stock[i] + arrived[i], SHELF)
            want = int(self._rng.expovariate(1.0) * MEAN_DEMAND[i] * season * self.trend[i] + 0.5)
            sold = min(have, want)
            self.stock[i] = have - sold
            profit += sold * PRICE[i] - order[i] * COST[i] - self.stock[i] * HOLDING[i]
            profit -= 0.3 * (want - sold)
            self.trend[i] = min(1.6, max(0.6, self.trend[i] + self._rng.uniform(-0.05, 0.05)))
        self.day += 1
        return self._observe(), profit / 10.0, False, self.day >= self.days, {}

    def _observe(self):
        coming = [0] * PRODUCTS
        for lorry in self.lorries:
            for i in range(PRODUCTS):
                coming[i] += lorry[i]
        angle = 2 * math.pi * self.day / 30
        return np.array([*(s / SHELF for s in self.stock), *(c / SHELF for c in coming),
                         *self.trend, math.sin(angle), math.cos(angle)], dtype=np.float32)

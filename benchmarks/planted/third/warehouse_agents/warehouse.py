"""Robots carry parcels from shelves to gates; PettingZoo parallel API, everything in arrays inside."""
import functools

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

VIEW = 2                               # cells to each side
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
OBS = (2 * VIEW + 1) ** 2 * 3 + 6


class WarehouseEnv(ParallelEnv):
    metadata = {"name": "warehouse_v0"}

    def __init__(self, robots: int = 16, size: int = 18, limit: int = 256):
        self.size, self.limit = size, limit
        self.possible_agents = [f"robot_{i}" for i in range(robots)]
        self.agents = []
        self.rng = np.random.default_rng(0)
        self._window = np.arange(-VIEW, VIEW + 1)
        self.walls = np.zeros((size + 2 * VIEW, size + 2 * VIEW), np.float32)
        self.walls[:VIEW] = self.walls[-VIEW:] = 1.0
        self.walls[:, :VIEW] = self.walls[:, -VIEW:] = 1.0
        self.gates = np.array([[0, 0], [0, size - 1], [size - 1, 0], [size - 1, size - 1]])

    @functools.lru_cache(maxsize=None)
    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (OBS,), np.float32)

    @functools.lru_cache(maxsize=None)
    def action_space(self, agent):
        return spaces.Discrete(len(MOVES))

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        n = len(self.agents)
        cells = self.rng.permutation(self.size ** 2)[:n]
        self.pos = np.stack(np.divmod(cells, self.size), axis=1)
        self.loaded = np.zeros(n, bool)
        self.target = self.rng.integers(0, self.size, (n, 2))
        self.t = 0
        return self._as_dict(self._observe()), {a: {} for a in self.agents}

    def step(self, actions):
        move = MOVES[[actions[a] for a in self.agents]]
        want = np.clip(self.pos + move, 0, self.size - 1)
        # a cell that several robots want, or that is occupied, stays as it is
        flat, now = want @ [self.size, 1], self.pos @ [self.size, 1]
        counts = np.bincount(flat, minlength=self.size ** 2)
        taken = np.zeros(self.size ** 2, bool)
        taken[now] = True
        free = (counts[flat] == 1) & ~taken[flat]
        bumped = ~free & (flat != now)
        before = np.abs(self.target - self.pos).sum(1)
        self.pos = np.where(free[:, None], want, self.pos)
        after = np.abs(self.target - self.pos).sum(1)
        reward = 0.05 * (before - after) - 0.05 * bumped - 0.005
        there = after == 0
        reward = reward + 1.0 * there
        if there.any():
            k = int(there.sum())
            gate = self.gates[self.rng.integers(0, len(self.gates), k)]
            shelf = self.rng.integers(0, self.size, (k, 2))
            self.target[there] = np.where(self.loaded[there][:, None], shelf, gate)
            self.loaded[there] = ~self.loaded[there]
        self.t += 1
        names, over = self.agents, self.t >= self.limit
        obs = self._as_dict(self._observe())
        rewards = dict(zip(names, reward.tolist()))
        if over:
            self.agents = []
        flags = dict.fromkeys(names, False)
        return obs, rewards, flags, dict.fromkeys(names, over), {a: {} for a in names}

    def _as_dict(self, rows):
        return dict(zip(self.agents, rows))

    def _observe(self):
        robots = np.zeros_like(self.walls)
        robots[self.pos[:, 0] + VIEW, self.pos[:, 1] + VIEW] = 1.0
        goals = np.zeros_like(self.walls)
        goals[self.target[:, 0] + VIEW, self.target[:, 1] + VIEW] = 1.0
        r = self.pos[:, 0, None, None] + VIEW + self._window[None, :, None]
        c = self.pos[:, 1, None, None] + VIEW + self._window[None, None, :]
        n = len(self.pos)
        delta = (self.target - self.pos) / self.size
        extra = np.concatenate([delta, np.sign(delta), self.loaded[:, None],
                                np.full((n, 1), self.t / self.limit)], axis=1)
        return np.concatenate([self.walls[r, c].reshape(n, -1), robots[r, c].reshape(n, -1),
                               goals[r, c].reshape(n, -1), extra], axis=1).astype(np.float32)

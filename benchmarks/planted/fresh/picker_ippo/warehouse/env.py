import functools

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

MOVES = np.array([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])


class Pickers(ParallelEnv):
    """Robots on a floor collect parcels that appear at random cells. Each one has its own parcel."""

    metadata = {"name": "pickers_v0"}

    def __init__(self, n_agents=8, size=12, horizon=200):
        self.possible_agents = [f"robot_{i}" for i in range(n_agents)]
        self.n, self.size, self.horizon = n_agents, size, horizon
        self.render_mode = None

    @functools.lru_cache(maxsize=None)
    def observation_space(self, agent):
        return spaces.Box(-1, 1, (4 + 2 * (self.n - 1),), np.float32)

    @functools.lru_cache(maxsize=None)
    def action_space(self, agent):
        return spaces.Discrete(5)

    def _obs(self):
        pos = self.pos / self.size
        tgt = self.target / self.size
        rel = pos[None, :, :] - pos[:, None, :]
        out = {}
        for i, a in enumerate(self.possible_agents):
            others = np.delete(rel[i], i, axis=0).ravel()
            out[a] = np.concatenate([pos[i], tgt[i] - pos[i], others]).astype(np.float32)
        return out

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        elif not hasattr(self, "rng"):
            self.rng = np.random.default_rng()
        self.agents = list(self.possible_agents)
        self.pos = self.rng.integers(0, self.size, (self.n, 2))
        self.target = self.rng.integers(0, self.size, (self.n, 2))
        self.t = 0
        return self._obs(), {a: {} for a in self.agents}

    def step(self, actions):
        self.t += 1
        act = np.array([actions[a] for a in self.agents])
        before = np.abs(self.pos - self.target).sum(1)
        self.pos = np.clip(self.pos + MOVES[act], 0, self.size - 1)
        after = np.abs(self.pos - self.target).sum(1)
        got = after == 0
        rew = 0.1 * (before - after) + got - 0.01
        if got.any():
            self.target[got] = self.rng.integers(0, self.size, (int(got.sum()), 2))
        done = self.t >= self.horizon
        obs = self._obs()
        rewards = {a: float(rew[i]) for i, a in enumerate(self.agents)}
        term = {a: False for a in self.agents}
        trunc = {a: done for a in self.agents}
        infos = {a: {} for a in self.agents}
        if done:
            self.agents = []
        return obs, rewards, term, trunc, infos

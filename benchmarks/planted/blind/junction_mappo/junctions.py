import functools

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Junctions(ParallelEnv):
    """R x C lights on a torus grid of roads. 4 queues per crossing, 4 phases."""

    metadata = {"name": "junctions_v0", "is_parallelizable": True}

    def __init__(self, rows=3, cols=4, horizon=300, inflow=0.16, seed=None):
        self.R, self.C, self.horizon, self.inflow = rows, cols, horizon, inflow
        self.n = rows * cols
        self.possible_agents = [f"light_{i}" for i in range(self.n)]
        self.agents = []
        self.rng = np.random.default_rng(seed)
        # phase -> which of N,E,S,W may go
        self.green = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]], np.float32)
        idx = np.arange(self.n).reshape(rows, cols)
        self.nb = np.stack(
            [np.roll(idx, 1, 0).ravel(), np.roll(idx, -1, 1).ravel(), np.roll(idx, -1, 0).ravel(), np.roll(idx, 1, 1).ravel()], 1
        )

    @functools.lru_cache(maxsize=None)
    def observation_space(self, agent):
        return spaces.Box(0, 10, (4 + 4 + 4 + 1,), np.float32)

    @functools.lru_cache(maxsize=None)
    def action_space(self, agent):
        return spaces.Discrete(4)

    def _obs_all(self):
        ph = np.eye(4, dtype=np.float32)[self.phase]
        nbq = self.q.sum(1)[self.nb] * 0.1
        o = np.concatenate([self.q * 0.2, ph, nbq, self.hold[:, None] * 0.1], 1)
        return np.clip(o, 0, 10).astype(np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.q = self.rng.integers(0, 6, (self.n, 4)).astype(np.float32)
        self.phase = np.zeros(self.n, np.int64)
        self.hold = np.zeros(self.n, np.float32)
        self.t = 0
        o = self._obs_all()
        return dict(zip(self.agents, o)), {a: {} for a in self.agents}

    def step(self, actions):
        act = np.fromiter((actions[a] for a in self.agents), np.int64, self.n)
        switched = act != self.phase
        self.hold = np.where(switched, 0, self.hold + 1).astype(np.float32)
        self.phase = act
        cap = np.where(switched, 1.0, 3.0)[:, None]
        out = np.minimum(self.q, cap * self.green[act])
        self.q -= out
        # 60% of the outflow goes on to the opposite neighbour
        for d in range(4):
            np.add.at(self.q[:, d], self.nb[:, (d + 2) % 4], np.floor(0.6 * out[:, d] + self.rng.random(self.n)))
        self.q += self.rng.poisson(self.inflow, self.q.shape)
        np.minimum(self.q, 40, out=self.q)
        self.t += 1
        wait = self.q.sum(1)
        rew = -(0.7 * wait + 0.3 * wait[self.nb].mean(1)) * 0.02 - 0.05 * switched
        end = self.t >= self.horizon
        o = self._obs_all()
        ag = self.agents
        ret = (
            dict(zip(ag, o)),
            dict(zip(ag, rew.tolist())),
            dict.fromkeys(ag, False),
            dict.fromkeys(ag, end),
            {a: {} for a in ag},
        )
        if end:
            self.agents = []
        return ret

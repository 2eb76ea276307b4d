import functools

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from sensing import nearest, separation, wrap


class PursuitEnv(ParallelEnv):
    """Pursuers (learning) hunt evaders (scripted) on a torus."""

    metadata = {"name": "pursuit_v1"}

    def __init__(self, pursuers, evaders, arena, limit, neighbours):
        self.n, self.m, self.arena, self.limit, self.k = pursuers, evaders, arena, limit, neighbours
        self.possible_agents = [f"pursuer_{i}" for i in range(pursuers)]
        self.agents = []
        self.obs_dim = 8 * neighbours + 3
        self.rng = np.random.default_rng()

    @functools.lru_cache(maxsize=None)
    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (self.obs_dim,), np.float32)

    @functools.lru_cache(maxsize=None)
    def action_space(self, agent):
        return spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.pos = self.rng.uniform(0, self.arena, (self.n, 2))
        self.vel = np.zeros((self.n, 2))
        self.prey = self.rng.uniform(0, self.arena, (self.m, 2))
        self.prey_vel = 0.3 * self.rng.standard_normal((self.m, 2))
        self.t = 0
        return self._pack(self._observe()), {a: {} for a in self.agents}

    def _pack(self, rows):
        return dict(zip(self.possible_agents, rows))

    def step(self, actions):
        force = np.clip(np.array([actions[a] for a in self.agents]), -1.0, 1.0)
        self.vel = 0.85 * self.vel + 0.25 * force + 0.3 * separation(self.pos, self.arena)
        self.pos = (self.pos + 0.2 * self.vel) % self.arena
        gap = wrap(self.prey[:, None] - self.pos[None], self.arena)          # [prey, pursuer, 2]
        dist = np.linalg.norm(gap, axis=-1)
        flee = (gap / (dist[..., None] ** 3 + 0.1)).sum(1)
        self.prey_vel = 0.9 * self.prey_vel + 0.05 * flee + 0.05 * self.rng.standard_normal((self.m, 2))
        speed = np.linalg.norm(self.prey_vel, axis=-1, keepdims=True)
        self.prey_vel *= np.minimum(1.0, 0.9 / (speed + 1e-6))
        self.prey = (self.prey + 0.2 * self.prey_vel) % self.arena
        caught = dist < 0.3
        closest = dist.min(0)
        rewards = 2.0 * caught.any(0) - 0.05 * closest - 0.01 * (force ** 2).sum(1)
        gone = caught.any(1)
        if gone.any():
            self.prey[gone] = self.rng.uniform(0, self.arena, (int(gone.sum()), 2))
        self.t += 1
        over = self.t >= self.limit
        names = self.agents
        obs = self._pack(self._observe())
        if over:
            self.agents = []
        return (obs, dict(zip(names, rewards)), dict.fromkeys(names, False), dict.fromkeys(names, over),
                {a: {} for a in names})

    def _observe(self):
        mates = nearest(self.pos, self.vel, self.pos, self.vel, self.k, self.arena, True)
        prey = nearest(self.pos, self.vel, self.prey, self.prey_vel, self.k, self.arena, False)
        own = np.concatenate([self.vel, np.full((self.n, 1), self.t / self.limit)], axis=1)
        return np.concatenate([mates, prey, own], axis=1).astype(np.float32)

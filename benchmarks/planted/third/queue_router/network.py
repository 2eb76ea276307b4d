"""Steady flows in a large queueing network (a city's road graph, one queue per junction)."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces

DISTRICTS = 8


def build_city(nodes: int, seed: int):
    """Two routing tables: the usual one, and the one that avoids the centre."""
    rng = np.random.default_rng(seed)
    xy = rng.random((nodes, 2))
    dist = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
    centre = np.exp(-6.0 * ((xy - 0.5) ** 2).sum(1))
    usual = np.exp(-dist / 0.05) * (0.3 + centre)[None, :]
    around = np.exp(-dist / 0.05) * (1.3 - centre)[None, :]
    tables = []
    for table in (usual, around):
        np.fill_diagonal(table, 0.0)
        tables.append((0.96 * table / table.sum(1, keepdims=True)).astype(np.float32))
    angle = np.arctan2(xy[:, 1] - 0.5, xy[:, 0] - 0.5)
    district = ((angle + np.pi) / (2 * np.pi) * DISTRICTS).astype(int) % DISTRICTS
    capacity = (25.0 + 60.0 * centre + 5.0 * rng.random(nodes)).astype(np.float32)
    return tables, district, capacity


class RoutingEnv(gym.Env):
    """Every five minutes each district decides which share of its traffic is diverted."""

    metadata = {"render_modes": []}

    def __init__(self, nodes: int = 600, city_seed: int = 0, limit: int = 96):
        (usual, around), self.district, self.capacity = build_city(nodes, city_seed)
        self.nodes, self.limit = nodes, limit
        self.base = np.eye(nodes, dtype=np.float32) - usual.T
        self.change = np.ascontiguousarray((around - usual).T)
        self.members = np.eye(DISTRICTS, dtype=np.float32)[self.district].T
        self.members /= self.members.sum(1, keepdims=True)
        self.observation_space = spaces.Box(-np.inf, np.inf, (3 * DISTRICTS + 2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (DISTRICTS,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = int(self.np_random.integers(0, 48))
        self.end = self.t + self.limit
        self.queue = np.zeros(self.nodes, np.float32)
        self.demand = self.np_random.uniform(0.5, 1.5, DISTRICTS).astype(np.float32)
        self.load = np.zeros(self.nodes, np.float32)
        return self._observe(), {}

    def step(self, action):
        share = 0.5 * (np.clip(action, -1.0, 1.0) + 1.0).astype(np.float32)
        day = 1.0 + 0.4 * np.sin(2 * np.pi * self.t / 288)
        self.demand += 0.1 * (1.0 - self.demand) + 0.1 * self.np_random.standard_normal(DISTRICTS).astype(np.float32)
        np.clip(self.demand, 0.2, 2.5, out=self.demand)
        inflow = np.float32(day) * self.demand[self.district]
        # traffic equations: flow = inflow + R(share)^T flow
        flow = np.linalg.solve(self.base - self.change * share[self.district], inflow)
        self.load = flow / self.capacity
        self.queue = np.clip(self.queue + flow - self.capacity, 0.0, 200.0)
        delay = np.minimum(self.load, 3.0) ** 2 + 0.05 * self.queue
        reward = -float(delay.mean()) - 0.05 * float(share.mean())
        self.t += 1
        return self._observe(), reward, False, self.t >= self.end, {}

    def _observe(self):
        angle = 2 * np.pi * self.t / 288
        return np.concatenate([self.members @ self.load, self.members @ self.queue / 50.0, self.demand,
                               [np.sin(angle), np.cos(angle)]]).astype(np.float32)

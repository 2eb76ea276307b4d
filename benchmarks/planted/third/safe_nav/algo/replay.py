import numpy as np
import torch


class Replay:
    def __init__(self, capacity, obs_dim, act_dim, seed):
        self.data = np.zeros((capacity, 2 * obs_dim + act_dim + 2), np.float32)
        self.cuts = np.cumsum([obs_dim, act_dim, obs_dim, 1])
        self.capacity, self.size, self.pos = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def store(self, obs, act, nxt, reward, cost):
        a, b, c, _ = self.cuts
        row = self.data[self.pos]
        row[:a], row[a:b], row[b:c], row[c], row[c + 1] = obs, act, nxt, reward, cost
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def batch(self, n):
        x = torch.from_numpy(self.data[self.rng.integers(0, self.size, n)])
        a, b, c, d = self.cuts
        return x[:, :a], x[:, a:b], x[:, b:c], x[:, c], x[:, d]

import numpy as np
import torch


class Memory:
    def __init__(self, size, s_dim, a_dim, seed=0):
        self.size, self.len, self.ptr = size, 0, 0
        self.rng = np.random.default_rng(seed)
        self.rows = np.zeros((size, 2 * s_dim + a_dim + 2), np.float32)
        self.split = (s_dim, a_dim, 1, s_dim, 1)

    def append(self, s, a, r, s2, nd):
        self.rows[self.ptr] = np.concatenate((s, a, (r,), s2, (nd,)))
        self.ptr = (self.ptr + 1) % self.size
        self.len = min(self.len + 1, self.size)

    def draw(self, k):
        return torch.from_numpy(self.rows[self.rng.integers(0, self.len, k)]).split(self.split, dim=1)

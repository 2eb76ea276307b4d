import numpy as np
import torch


class Replay:
    def __init__(self, size, s_dim, a_dim, seed):
        self.data = np.zeros((size, 2 * s_dim + a_dim + 2), np.float32)
        self.cut = np.cumsum([s_dim, a_dim, 1, s_dim, 1])
        self.size, self.n = size, 0
        self.rng = np.random.default_rng(seed)

    def add(self, s, a, r, s2, not_done):
        self.data[self.n % self.size] = np.concatenate([s, a, [r], s2, [not_done]])
        self.n += 1

    def sample(self, k):
        rows = torch.from_numpy(self.data[self.rng.integers(0, min(self.n, self.size), k)])
        return rows.tensor_split(tuple(int(c) for c in self.cut[:-1]), dim=1)

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset


class ReplayDataset(IterableDataset):
    """Ring buffer that hands out complete random batches for ever; DataLoader(batch_size=None) just passes them on."""

    def __init__(self, capacity, obs_dim, act_dim, batch, seed):
        self.data = np.zeros((capacity, 2 * obs_dim + act_dim + 1), dtype=np.float32)
        self.splits = [obs_dim, act_dim, 1, obs_dim]
        self.capacity, self.batch = capacity, batch
        self.pos = self.size = 0
        self.rng = np.random.default_rng(seed)

    def extend(self, obs, action, reward, next_obs):
        rows = (self.pos + np.arange(len(obs))) % self.capacity
        self.data[rows] = np.concatenate([obs, action, reward[:, None], next_obs], axis=1)
        self.pos = (self.pos + len(obs)) % self.capacity
        self.size = min(self.size + len(obs), self.capacity)

    def __iter__(self):
        while True:
            rows = self.rng.integers(0, self.size, self.batch)
            yield torch.from_numpy(self.data[rows]).split(self.splits, dim=1)

    def loader(self):
        return iter(DataLoader(self, batch_size=None, num_workers=0))

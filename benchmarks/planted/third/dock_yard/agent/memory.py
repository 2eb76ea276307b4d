import numpy as np
import torch


class Memory:
    def __init__(self, capacity, obs_size, seed):
        self.data = np.zeros((capacity, 2 * obs_size + 3), dtype=np.float32)
        self.obs_size, self.capacity = obs_size, capacity
        self.count = 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, action, reward, next_obs, over):
        self.data[self.count % self.capacity] = [*obs, *next_obs, action, reward, over]
        self.count += 1

    def sample(self, n):
        rows = self.rng.integers(0, min(self.count, self.capacity), n)
        batch = torch.from_numpy(self.data[rows])
        o = self.obs_size
        return batch[:, :o], batch[:, o:2 * o], batch[:, -3].long(), batch[:, -2], batch[:, -1]

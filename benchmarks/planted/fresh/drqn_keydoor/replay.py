import numpy as np
import torch


class EpisodeReplay:
    """whole episodes, zero padded to the time limit"""

    def __init__(self, episodes, limit, obs_dim, seed=0):
        self.cap, self.limit = episodes, limit
        self.obs = np.zeros((episodes, limit + 1, obs_dim), np.float32)
        self.act = np.zeros((episodes, limit), np.int64)
        self.rew = np.zeros((episodes, limit), np.float32)
        self.done = np.zeros((episodes, limit), np.float32)
        self.mask = np.zeros((episodes, limit), np.float32)
        self.count = 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, act, rew, terminal):
        i, n = self.count % self.cap, len(act)
        for arr in (self.obs, self.act, self.rew, self.done, self.mask):
            arr[i] = 0
        self.obs[i, :n + 1] = obs
        self.act[i, :n] = act
        self.rew[i, :n] = rew
        self.done[i, n - 1] = float(terminal)
        self.mask[i, :n] = 1
        self.count += 1

    def sample(self, k):
        i = self.rng.integers(0, min(self.count, self.cap), k)
        return tuple(torch.from_numpy(x[i]) for x in (self.obs, self.act, self.rew, self.done, self.mask))

import numpy as np
import torch


class ReplayMemory:
    """Ring buffer over preallocated arrays."""

    def __init__(self, capacity, obs_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.terminal = np.zeros(capacity, np.float32)
        self.head, self.size = 0, 0
        self.rng = np.random.default_rng(0)

    def push(self, obs, action, reward, next_obs, terminal):
        i = self.head
        self.obs[i] = obs
        self.action[i] = action
        self.reward[i] = reward
        self.next_obs[i] = next_obs
        self.terminal[i] = terminal
        self.head = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        k = self.rng.integers(0, self.size, n)
        fields = (self.obs[k], self.action[k], self.reward[k], self.next_obs[k], self.terminal[k])
        return tuple(torch.from_numpy(f).to(self.device) for f in fields)

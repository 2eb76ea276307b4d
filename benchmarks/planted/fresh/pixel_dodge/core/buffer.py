import numpy as np
import torch


class FrameBuffer:
    def __init__(self, capacity, shape, seed=0):
        self.capacity = capacity
        self.obs = np.zeros((capacity, *shape), np.uint8)
        self.next_obs = np.zeros((capacity, *shape), np.uint8)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.pos, self.full = 0, False
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.capacity if self.full else self.pos

    def push(self, o, a, r, o2, d):
        i = self.pos
        self.obs[i], self.action[i], self.reward[i], self.next_obs[i], self.done[i] = o, a, r, o2, d
        self.pos = (i + 1) % self.capacity
        self.full = self.full or self.pos == 0

    def sample(self, n):
        i = self.rng.integers(0, len(self), n)
        to = lambda x: torch.from_numpy(x[i])
        return (to(self.obs).float().div_(255), to(self.action), to(self.reward), to(self.next_obs).float().div_(255), to(self.done))

    def state(self):
        n = len(self)
        return dict(obs=self.obs, next_obs=self.next_obs, action=self.action, reward=self.reward, done=self.done,
                    pos=np.array(self.pos), n=np.array(n))

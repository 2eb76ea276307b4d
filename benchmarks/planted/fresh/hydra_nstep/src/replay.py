from collections import deque

import numpy as np


class NStepReplay:
    def __init__(self, capacity, obs_shape, n_step, gamma):
        self.capacity, self.n_step, self.gamma = capacity, n_step, gamma
        self.obs = np.zeros((capacity, *obs_shape), np.uint8)
        self.next_obs = np.zeros((capacity, *obs_shape), np.uint8)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.discount = np.zeros(capacity, np.float32)
        self.pending = deque()
        self.pos = self.size = 0

    def __len__(self):
        return self.size

    def add(self, obs, action, reward, next_obs, done):
        self.pending.append([obs, action, 0.0, 1.0])
        for item in self.pending:
            item[2] += item[3] * reward
            item[3] *= self.gamma
        while self.pending and (done or len(self.pending) >= self.n_step):
            o, a, r, g = self.pending.popleft()
            i = self.pos
            self.obs[i], self.action[i], self.reward[i], self.next_obs[i] = o, a, r, next_obs
            self.discount[i] = 0.0 if done else g
            self.pos = (i + 1) % self.capacity
            self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = np.random.randint(0, self.size, n)
        return self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.discount[idx]

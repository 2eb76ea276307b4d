from collections import deque

import numpy as np


class ReplayMemory:
    """plain experience replay (prioritized one is in the other branch, did not help here)"""

    def __init__(self, capacity, obs_dim, seed=0):
        self.data = deque(maxlen=capacity)
        self.rng = np.random.default_rng(seed)

    def push_many(self, s, a, r, s2, d):
        self.data.extend(zip(s, a, r, s2, d))

    def sample(self, n):
        idx = self.rng.permutation(len(self.data))[:n]
        s, a, r, s2, d = zip(*(self.data[i] for i in idx))
        return (np.stack(s), np.array(a, dtype=np.int64), np.array(r, dtype=np.float32),
                np.stack(s2), np.array(d, dtype=np.float32))

    def __len__(self):
        return len(self.data)

"""Prioritised replay (Schaul et al.) as a drop-in for SB3's ReplayBuffer."""
import numpy as np
import torch as th
from stable_baselines3.common.buffers import ReplayBuffer


class SumTree:
    def __init__(self, capacity):
        self.capacity = 1
        while self.capacity < capacity:
            self.capacity *= 2
        self.tree = np.zeros(2 * self.capacity)

    def total(self):
        return self.tree[1]

    def _propagate(self, node, change):
        parent = node // 2
        self.tree[parent] += change
        if parent > 1:
            self._propagate(parent, change)

    def _retrieve(self, node, v):
        if node >= self.capacity:
            return node
        left = 2 * node
        if v <= self.tree[left]:
            return self._retrieve(left, v)
        return self._retrieve(left + 1, v - self.tree[left])

    def update(self, idxs, priorities):
        for i, p in zip(idxs, priorities):
            node = i + self.capacity
            change = p - self.tree[node]
            self.tree[node] = p
            self._propagate(node, change)

    def find(self, values):
        return np.array([self._retrieve(1, v) - self.capacity for v in values], dtype=np.int64)

    def get(self, idxs):
        return self.tree[np.asarray(idxs) + self.capacity]


class PrioritizedReplayBuffer(ReplayBuffer):
    def __init__(self, *args, alpha=0.6, beta=0.4, eps=1e-5, **kwargs):
        super().__init__(*args, **kwargs)
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self.max_priority = 1.0
        self.tree = SumTree(self.buffer_size)

    def add(self, *args, **kwargs):
        self.tree.update([self.pos], [self.max_priority ** self.alpha])
        super().add(*args, **kwargs)

    def sample(self, batch_size, env=None):
        n = self.size()
        total = self.tree.total()
        seg = total / batch_size
        values = (np.arange(batch_size) + np.random.rand(batch_size)) * seg
        idxs = np.minimum(self.tree.find(values), n - 1)
        prob = self.tree.get(idxs) / total
        w = (n * np.maximum(prob, 1e-12)) ** -self.beta
        self.last_idxs = idxs
        self.last_weights = th.as_tensor(w / w.max(), dtype=th.float32, device=self.device).unsqueeze(1)
        return self._get_samples(idxs, env=env)

    def update_priorities(self, td_error):
        p = np.abs(td_error) + self.eps
        self.max_priority = max(self.max_priority, float(p.max()))
        self.tree.update(self.last_idxs, p ** self.alpha)

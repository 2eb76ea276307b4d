import numpy as np


class SumTree:
    def __init__(self, capacity):
        self.capacity = capacity
        self.tree = np.zeros(2 * capacity - 1)
        self.write = 0
        self.n_entries = 0

    def _propagate(self, idx, change):
        parent = (idx - 1) // 2
        self.tree[parent] += change
        if parent != 0:
            self._propagate(parent, change)

    def _retrieve(self, idx, s):
        left = 2 * idx + 1
        if left >= len(self.tree):
            return idx
        if s <= self.tree[left]:
            return self._retrieve(left, s)
        return self._retrieve(left + 1, s - self.tree[left])

    def total(self):
        return self.tree[0]

    def add(self, p):
        slot = self.write
        self.update(slot + self.capacity - 1, p)
        self.write = (self.write + 1) % self.capacity
        self.n_entries = min(self.n_entries + 1, self.capacity)
        return slot

    def update(self, idx, p):
        change = p - self.tree[idx]
        self.tree[idx] = p
        self._propagate(idx, change)

    def get(self, s):
        idx = self._retrieve(0, s)
        return idx, self.tree[idx]


class PrioritizedMemory:
    def __init__(self, capacity, obs_size, alpha, seed=0):
        self.tree = SumTree(capacity)
        self.alpha = alpha
        self.eps = 1e-3
        self.max_p = 1.0
        self.rng = np.random.default_rng(seed)
        self.obs = np.zeros((capacity, obs_size), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_size), dtype=np.float32)
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.discounts = np.zeros(capacity, dtype=np.float32)

    def __len__(self):
        return self.tree.n_entries

    def push(self, obs, action, reward, next_obs, discount):
        i = self.tree.add(self.max_p)
        self.obs[i] = obs
        self.next_obs[i] = next_obs
        self.actions[i] = action
        self.rewards[i] = reward
        self.discounts[i] = discount

    def sample(self, n, beta):
        segment = self.tree.total() / n
        draws = (np.arange(n) + self.rng.random(n)) * segment
        idxs = np.empty(n, dtype=np.int64)
        prios = np.empty(n)
        for k in range(n):
            idxs[k], prios[k] = self.tree.get(draws[k])
        slots = idxs - (self.tree.capacity - 1)
        w = (len(self) * prios / self.tree.total()) ** -beta
        w = (w / w.max()).astype(np.float32)
        batch = (self.obs[slots], self.actions[slots], self.rewards[slots], self.next_obs[slots], self.discounts[slots])
        return idxs, w, batch

    def update_priorities(self, idxs, errors):
        prios = (np.abs(errors) + self.eps) ** self.alpha
        self.max_p = max(self.max_p, float(prios.max()))
        for i, p in zip(idxs, prios):
            self.tree.update(i, p)

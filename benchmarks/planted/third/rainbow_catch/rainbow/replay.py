import numpy as np


class SumTree:
    """Leaves hold priorities, inner nodes the sum of their children (Schaul et al. 2016, appendix B.2.1)."""

    def __init__(self, capacity):
        self.capacity = 1
        while self.capacity < capacity:
            self.capacity *= 2
        self.nodes = np.zeros(2 * self.capacity, dtype=np.float64)

    @property
    def total(self):
        return self.nodes[1]

    def _propagate(self, node, change):
        self.nodes[node] += change
        if node > 1:
            self._propagate(node // 2, change)

    def set(self, leaf, priority):
        node = leaf + self.capacity
        self._propagate(node, priority - self.nodes[node])

    def _retrieve(self, node, mass):
        if node >= self.capacity:
            return node
        left = 2 * node
        if mass <= self.nodes[left]:
            return self._retrieve(left, mass)
        return self._retrieve(left + 1, mass - self.nodes[left])

    def find(self, mass):
        return self._retrieve(1, mass) - self.capacity

    def __getitem__(self, leaf):
        return self.nodes[leaf + self.capacity]


class PrioritizedReplay:
    def __init__(self, capacity, obs_size, alpha=0.5, n_step=3, gamma=0.99, seed=0):
        self.capacity = capacity
        self.alpha, self.n_step, self.gamma = alpha, n_step, gamma
        self.obs = np.zeros((capacity, obs_size), dtype=np.float32)
        self.next_obs = np.zeros((capacity, obs_size), dtype=np.float32)
        self.action = np.zeros(capacity, dtype=np.int64)
        self.ret = np.zeros(capacity, dtype=np.float32)
        self.discount = np.zeros(capacity, dtype=np.float32)
        self.tree = SumTree(capacity)
        self.max_priority = 1.0
        self.pos = self.size = 0
        self.window = []
        self.rng = np.random.default_rng(seed)

    def add(self, obs, action, reward, next_obs, done):
        self.window.append((obs, action, reward))
        if done:
            while self.window:
                self._store(next_obs, 0.0)
        elif len(self.window) == self.n_step:
            self._store(next_obs, self.gamma ** self.n_step)

    def _store(self, next_obs, discount):
        ret = 0.0
        for _, _, r in reversed(self.window):
            ret = r + self.gamma * ret
        obs, action, _ = self.window.pop(0)
        i = self.pos
        self.obs[i], self.action[i], self.ret[i] = obs, action, ret
        self.next_obs[i], self.discount[i] = next_obs, discount
        self.tree.set(i, self.max_priority)
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch, beta):
        bounds = np.linspace(0.0, self.tree.total, batch + 1)
        masses = self.rng.uniform(bounds[:-1], bounds[1:])
        idx = np.array([self.tree.find(m) for m in masses])
        idx = np.minimum(idx, self.size - 1)
        prob = np.array([self.tree[i] for i in idx]) / self.tree.total
        weights = (self.size * prob) ** -beta
        weights = (weights / weights.max()).astype(np.float32)
        return idx, weights, (self.obs[idx], self.action[idx], self.ret[idx], self.next_obs[idx], self.discount[idx])

    def update_priorities(self, idx, errors):
        priorities = (errors + 1e-6) ** self.alpha
        self.max_priority = max(self.max_priority, float(priorities.max()))
        for i, p in zip(idx, priorities):
            self.tree.set(i, p)

import numpy as np


class PursuitWorld:
    """wolves chase sheep on a torus; parallel multi-agent api with dicts keyed by the agent's name"""

    n_actions = 5
    _dirs = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32) * 0.04

    def __init__(self, n_wolves=8, n_sheep=4, horizon=128, seed=0):
        self.agents = [f"wolf_{i}" for i in range(n_wolves)]
        self.nw, self.ns, self.horizon = n_wolves, n_sheep, horizon
        self.rng = np.random.default_rng(seed)
        self.obs_dim = 2 * n_sheep + 2 * (n_wolves - 1) + 2
        self._others = np.array([[j for j in range(n_wolves) if j != i] for i in range(n_wolves)])

    def reset(self):
        self.wolves = self.rng.random((self.nw, 2), dtype=np.float32)
        self.sheep = self.rng.random((self.ns, 2), dtype=np.float32)
        self.t = 0
        return self._observe()

    @staticmethod
    def _wrap(d):
        return (d + 0.5) % 1.0 - 0.5

    def _observe(self):
        to_sheep = self._wrap(self.sheep[None] - self.wolves[:, None])
        to_wolf = self._wrap(self.wolves[self._others] - self.wolves[:, None])
        o = np.concatenate([to_sheep.reshape(self.nw, -1), to_wolf.reshape(self.nw, -1), self.wolves], axis=1)
        return {name: o[i] for i, name in enumerate(self.agents)}

    def step(self, actions):
        a = np.array([actions[n] for n in self.agents])
        self.wolves = (self.wolves + self._dirs[a]) % 1.0
        d = self._wrap(self.sheep[:, None] - self.wolves[None])
        dist = np.sqrt((d ** 2).sum(-1))
        flee = (d / (dist[..., None] ** 2 + 0.01)).sum(1)
        flee /= np.linalg.norm(flee, axis=1, keepdims=True) + 1e-6
        self.sheep = ((self.sheep + 0.025 * flee + self.rng.normal(0, 0.004, self.sheep.shape)) % 1.0).astype(np.float32)
        near = dist < 0.06
        caught = near.sum(1) >= 2
        reward = (near & caught[:, None]).sum(0).astype(np.float32) - 0.05 * dist.min(0)
        k = int(caught.sum())
        if k:
            self.sheep[caught] = self.rng.random((k, 2), dtype=np.float32)
        self.t += 1
        done = self.t >= self.horizon
        rewards = dict(zip(self.agents, reward))
        dones = {n: done for n in self.agents}
        dones["__all__"] = done
        return self._observe(), rewards, dones, {"caught": k}

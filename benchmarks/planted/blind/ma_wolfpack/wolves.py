import numpy as np


class WolfPack:
    """16 wolves chase 4 deer on a torus. Everything is a dict keyed by agent name (like the old rllib multi agent api)"""

    def __init__(self, n_wolves=16, n_deer=4, max_t=150, seed=0):
        self.W, self.M, self.max_t = n_wolves, n_deer, max_t
        self.rng = np.random.default_rng(seed)
        self.agents = ["wolf_%d" % i for i in range(n_wolves)]
        self.obs_dim = 4 + 3 * n_deer + 6
        self.n_act = 5
        self.dirs = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)

    def reset(self):
        self.w = self.rng.random((self.W, 2)).astype(np.float32)
        self.v = np.zeros((self.W, 2), np.float32)
        self.d = self.rng.random((self.M, 2)).astype(np.float32)
        self.t = 0
        return self._pack()

    @staticmethod
    def _wrap(x):
        return x - np.round(x)

    def _pack(self):
        rel = self._wrap(self.d[None] - self.w[:, None])
        self.dist = np.sqrt((rel ** 2).sum(-1))
        mates = self._wrap(self.w[None] - self.w[:, None])
        md = (mates ** 2).sum(-1)
        md[np.arange(self.W), np.arange(self.W)] = 9
        near = np.argpartition(md, 3, axis=1)[:, :3]
        nb = np.take_along_axis(mates, near[..., None], 1).reshape(self.W, -1)
        x = np.concatenate([self.w, 10 * self.v, rel.reshape(self.W, -1), self.dist, nb], 1, dtype=np.float32)
        return dict(zip(self.agents, x))

    def step(self, actions):
        a = np.fromiter((actions[k] for k in self.agents), np.int64, self.W)
        self.v = 0.6 * self.v + 0.012 * self.dirs[a]
        self.w = (self.w + self.v) % 1.0
        rel = self._wrap(self.d[:, None] - self.w[None])
        dd = (rel ** 2).sum(-1)
        flee = (rel / (dd[..., None] + 0.01)).sum(1)
        flee /= np.linalg.norm(flee, axis=1, keepdims=True) + 1e-6
        self.d = (self.d + 0.011 * flee + 0.004 * self.rng.standard_normal((self.M, 2))).astype(np.float32) % 1.0
        prev = self.dist
        obs = self._pack()
        close = self.dist < 0.06
        caught = close.sum(0) >= 2
        r = (prev.min(1) - self.dist.min(1)) * 4 + (close & caught[None]).any(1) * 2.0 - 0.01
        if caught.any():
            self.d[caught] = self.rng.random((int(caught.sum()), 2))
        self.t += 1
        over = self.t >= self.max_t
        return obs, dict(zip(self.agents, r.astype(np.float32).tolist())), over, {"caught": int(caught.sum())}

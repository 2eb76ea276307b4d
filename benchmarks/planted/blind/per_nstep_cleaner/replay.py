import numpy as np


class SumTree:
    def __init__(self, size):
        self.size = size            # power of two
        self.node = np.zeros(2 * size, np.float64)

    def total(self):
        return self.node[1]

    def set(self, idx, pri):
        for i, p in zip(idx, pri):
            j = i + self.size
            self.node[j] = p
            j //= 2
            while j >= 1:
                self.node[j] = self.node[2 * j] + self.node[2 * j + 1]
                j //= 2

    def find(self, mass):
        out = np.empty(len(mass), np.int64)
        for k, m in enumerate(mass):
            j = 1
            while j < self.size:
                left = self.node[2 * j]
                if m < left:
                    j = 2 * j
                else:
                    m -= left
                    j = 2 * j + 1
            out[k] = j - self.size
        return out

    def get(self, idx):
        return self.node[idx + self.size]


class NStepPER:
    def __init__(self, size, obs_dim, n_env, n=3, gamma=0.99, alpha=0.6):
        self.tree = SumTree(size)
        self.size, self.n, self.gamma, self.alpha = size, n, gamma, alpha
        self.o = np.zeros((size, obs_dim), np.float32)
        self.o2 = np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros(size, np.int64)
        self.r = np.zeros(size, np.float32)
        self.g = np.zeros(size, np.float32)        # gamma^k * (1-done)
        self.pos, self.full = 0, 0
        self.maxp = 1.0
        self.win = []                              # last n vector transitions

    def add(self, o, a, r, o2, d):
        self.win.append((o, a, r, o2, d))
        if len(self.win) < self.n:
            return
        o0, a0 = self.win[0][0], self.win[0][1]
        R = np.zeros(len(a), np.float32)
        alive = np.ones(len(a), np.float32)
        last = self.win[0][3].copy()
        disc = 1.0
        for (_, _, rr, oo, dd) in self.win:
            R += disc * alive * rr
            m = alive > 0
            last[m] = oo[m]
            alive = alive * (1 - dd)
            disc *= self.gamma
        k = len(a)
        ix = (self.pos + np.arange(k)) % self.size
        self.o[ix], self.a[ix], self.r[ix], self.o2[ix], self.g[ix] = o0, a0, R, last, disc * alive
        self.tree.set(ix, np.full(k, self.maxp))
        self.pos = (self.pos + k) % self.size
        self.full = min(self.full + k, self.size)
        self.win.pop(0)

    def sample(self, b, beta, rng):
        seg = self.tree.total() / b
        ix = self.tree.find((np.arange(b) + rng.random(b)) * seg)
        ix = np.minimum(ix, self.full - 1)
        p = self.tree.get(ix) / self.tree.total()
        w = (self.full * p + 1e-12) ** (-beta)
        return ix, (w / w.max()).astype(np.float32), (self.o[ix], self.a[ix], self.r[ix], self.o2[ix], self.g[ix])

    def refresh(self, ix, err):
        p = (np.abs(err) + 1e-3) ** self.alpha
        self.maxp = max(self.maxp, float(p.max()))
        self.tree.set(ix, p)

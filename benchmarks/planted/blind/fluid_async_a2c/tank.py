"""Stirred tank: 2D stable-fluids solver (numba) with a dye that has to be mixed by 4 jets."""
import gymnasium as gym
import numpy as np
from numba import njit


@njit(fastmath=True, cache=False)
def _advect(dst, src, u, v, dt):
    n, m = src.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            x = min(max(i - dt * u[i, j], 0.5), n - 1.5)
            y = min(max(j - dt * v[i, j], 0.5), m - 1.5)
            i0, j0 = int(x), int(y)
            s, t = x - i0, y - j0
            dst[i, j] = (1 - s) * ((1 - t) * src[i0, j0] + t * src[i0, j0 + 1]) + s * (
                (1 - t) * src[i0 + 1, j0] + t * src[i0 + 1, j0 + 1]
            )


@njit(fastmath=True, cache=False)
def _project(u, v, p, div, iters):
    n, m = u.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            div[i, j] = -0.5 * (u[i + 1, j] - u[i - 1, j] + v[i, j + 1] - v[i, j - 1])
            p[i, j] *= 0.9
    for _ in range(iters):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                p[i, j] = 0.25 * (div[i, j] + p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1])
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            u[i, j] -= 0.5 * (p[i + 1, j] - p[i - 1, j])
            v[i, j] -= 0.5 * (p[i, j + 1] - p[i, j - 1])


@njit(fastmath=True, cache=False)
def advance(u, v, c, p, div, bu, bv, bc, jets, force, sub, iters):
    for _ in range(sub):
        for k in range(jets.shape[0]):
            a, b = jets[k, 0], jets[k, 1]
            for i in range(a - 2, a + 3):
                for j in range(b - 2, b + 3):
                    u[i, j] += force[k, 0]
                    v[i, j] += force[k, 1]
        _project(u, v, p, div, iters)
        _advect(bu, u, u, v, 0.5)
        _advect(bv, v, u, v, 0.5)
        _advect(bc, c, u, v, 0.5)
        u[:] = bu * 0.995
        v[:] = bv * 0.995
        c[:] = bc


class Tank(gym.Env):
    def __init__(self, n=96, sub=2, iters=30, horizon=200):
        self.n, self.sub, self.iters, self.horizon = n, sub, iters, horizon
        q = n // 4
        self.jets = np.array([[q, q], [q, 3 * q], [3 * q, q], [3 * q, 3 * q]])
        self.pool = 8
        k = n // self.pool
        self.observation_space = gym.spaces.Box(-10, 10, (3 * k * k,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (8,), np.float32)

    def _down(self, x):
        k = self.n // self.pool
        return x.reshape(k, self.pool, k, self.pool).mean((1, 3))

    def _obs(self):
        o = np.stack([self._down(self.c), self._down(self.u) * 3, self._down(self.v) * 3])
        return np.clip(o, -10, 10).astype(np.float32).ravel()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        n = self.n
        self.u, self.v, self.p, self.div = (np.zeros((n, n), np.float32) for _ in range(4))
        self.c = np.zeros((n, n), np.float32)
        a = int(self.np_random.integers(10, n // 2))
        self.c[a : a + 30, 10 : n // 2] = 1.0
        self.buf = [np.zeros((n, n), np.float32) for _ in range(3)]
        self.t = 0
        self.var = float(self.c.var())
        return self._obs(), {}

    def step(self, a):
        f = np.clip(np.asarray(a, np.float32).reshape(4, 2), -1, 1) * np.float32(0.15)
        advance(self.u, self.v, self.c, self.p, self.div, *self.buf, self.jets, f, self.sub, self.iters)
        self.t += 1
        var = float(self.c.var())
        r = 50.0 * (self.var - var) - 0.01 * float((f * f).sum())
        self.var = var
        return self._obs(), r, False, self.t >= self.horizon, {}


def warm():
    e = Tank(n=32)
    e.reset(seed=0)
    e.step(np.zeros(8, np.float32))

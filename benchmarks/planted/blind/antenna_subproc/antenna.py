"""Phased array: set the element phases of a 2d array, reward from the far field pattern of a drifting, coupled array."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ArrayEnv(gym.Env):
    def __init__(self, side=20, grid=128, groups=8, horizon=64):
        self.side, self.grid, self.groups, self.horizon = side, grid, groups, horizon
        n = side * side
        self.n = n
        ax = np.arange(side)
        self.pos = np.stack(np.meshgrid(ax, ax), -1).reshape(-1, 2).astype(float)
        d = np.linalg.norm(self.pos[:, None] - self.pos[None], axis=-1)
        np.fill_diagonal(d, 1.0)
        # only ~150 different distances, the exp is taken on those and spread
        self.ud, inv = np.unique(d.round(5), return_inverse=True)
        self.inv = inv.reshape(n, n)
        # phase groups: outer product of row groups and column groups
        self.g = ((self.pos[:, 0] // (side // 2)) * 4 + self.pos[:, 1] // (side // 4)).astype(int)
        self.observation_space = spaces.Box(-5, 5, (2 * groups + 4,), np.float32)
        self.action_space = spaces.Box(-1, 1, (groups,), np.float32)

    def _solve(self):
        # mutual coupling depends on the (drifting) permittivity
        k = 2 * np.pi * 0.5 * self.eps
        z = (np.exp(-1j * k * self.ud) / self.ud * 0.12).astype(np.complex64)
        Z = z[self.inv]
        Z[np.arange(self.n), np.arange(self.n)] = 1.0
        w = np.exp(1j * self.phase[self.g]).astype(np.complex64)
        return np.linalg.solve(Z, w)

    def _pattern(self, cur):
        a = np.zeros((self.grid, self.grid), np.complex64)
        a[:self.side, :self.side] = cur.reshape(self.side, self.side)
        return np.abs(np.fft.fft2(a)) ** 2

    def _obs(self):
        return np.concatenate((np.cos(self.phase), np.sin(self.phase), self.target * 2 - 1,
                               [self.gain, (self.eps - 1) * 10])).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.phase = self.np_random.uniform(-0.5, 0.5, self.groups)
        self.target = self.np_random.uniform(0, 1, 2)
        self.eps = 1.0 + 0.05 * self.np_random.standard_normal()
        self.gain = 0.0
        self.t = 0
        return self._obs(), {}

    def step(self, a):
        self.phase = (self.phase + 0.6 * np.clip(a, -1, 1) + np.pi) % (2 * np.pi) - np.pi
        self.eps = 1.0 + 0.98 * (self.eps - 1.0) + 0.005 * self.np_random.standard_normal()
        P = self._pattern(self._solve())
        i, j = (self.target * 20).astype(int)
        tot = P.sum()
        self.gain = float(np.log10(P[i:i + 6, j:j + 6].mean() / (tot / P.size) + 1e-6))
        side = float(np.log10(P.max() / (tot / P.size)))
        self.t += 1
        r = self.gain - 0.2 * max(side - self.gain, 0)
        return self._obs(), r, False, self.t >= self.horizon, {}

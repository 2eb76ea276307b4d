import numpy as np
from scipy.linalg import solveh_banded

M = 64                     # nodes per side
BW = M
COARSE = 8


def _stiffness():
    """upper banded 5-point laplacian, (BW+1, M*M)"""
    n = M * M
    ab = np.zeros((BW + 1, n))
    ab[BW] = 4.0
    off = -np.ones(n)
    off[::M] = 0.0
    ab[BW - 1] = off
    ab[0, M:] = -1.0
    return np.asfortranarray(ab)      # lapack wants columns


_K = _stiffness()
_yy, _xx = np.mgrid[0:M, 0:M] / (M - 1)
_ACT = np.stack([np.exp(-((_xx - cx) ** 2 + (_yy - cy) ** 2) / 0.01).ravel()
                 for cx in (0.2, 0.5, 0.8) for cy in (0.2, 0.5, 0.8)])


class Membrane:
    """stretched sheet with a stiffening spring under every node, implicit step, 9 push rods.
    The matrix changes with the deflection, so it is factorised again at each step."""

    obs_dim = 2 * COARSE * COARSE + 4
    act_dim = 9

    def __init__(self, seed, horizon=100):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon
        self.dt, self.tension, self.cubic, self.damp = 0.06, 40.0, 6.0, 0.8

    def reset(self):
        self.u = np.zeros(M * M)
        self.v = np.zeros(M * M)
        self.t = 0
        self.goal = self.rng.uniform(0.2, 0.8, 2)
        self.amp = self.rng.uniform(0.2, 0.6) * self.rng.choice([-1, 1])
        g = np.exp(-((_xx - self.goal[0]) ** 2 + (_yy - self.goal[1]) ** 2) / 0.03).ravel()
        self.shape = self.amp * g
        return self.obs()

    def obs(self):
        k = M // COARSE
        o = np.empty(self.obs_dim, np.float32)
        c = COARSE * COARSE
        o[:c] = self.u.reshape(COARSE, k, COARSE, k).mean((1, 3)).ravel()
        o[c:2 * c] = 0.2 * self.v.reshape(COARSE, k, COARSE, k).mean((1, 3)).ravel()
        o[2 * c:] = (*self.goal, self.amp, self.t / self.horizon)
        return o

    def step(self, a):
        f = np.clip(a, -1, 1) @ _ACT * 30.0
        dt = self.dt
        ab = _K * (dt * dt * self.tension)
        ab[BW] += 1.0 + dt * self.damp + dt * dt * 3 * self.cubic * self.u ** 2
        uu = self.u.reshape(M, M)
        lap = np.zeros((M + 2, M + 2))
        lap[1:-1, 1:-1] = uu
        ku = 4 * uu - lap[:-2, 1:-1] - lap[2:, 1:-1] - lap[1:-1, :-2] - lap[1:-1, 2:]
        rhs = self.v + dt * (f - self.tension * ku.ravel() - self.cubic * self.u ** 3)
        self.v = solveh_banded(ab, rhs, overwrite_ab=True, overwrite_b=True, check_finite=False)
        self.u = self.u + dt * self.v
        self.t += 1
        err = float(np.mean((self.u - self.shape) ** 2))
        r = -2.0 * err - 0.0005 * float(np.square(a).sum())
        return self.obs(), r, self.t >= self.horizon, {}

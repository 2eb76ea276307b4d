import numpy as np
from scipy import fft

N = 128


class Plate:
    """a plate with four heaters, implicit diffusion and radiation; keep sixteen sensors at their set points"""

    n_actions = 9
    obs_dim = 16 + 16 + 4

    def __init__(self, seed, substeps=15, horizon=64):
        self.rng = np.random.default_rng(seed)
        self.substeps, self.horizon = substeps, horizon
        k = np.arange(N, dtype=np.float32)
        lam = 2 - 2 * np.cos(np.pi * k / N)
        self.damp = (1.0 / (1.0 + 1.5 * (lam[:, None] + lam[None]))).astype(np.float32)
        y, x = np.mgrid[0:N, 0:N].astype(np.float32) / N
        spots = [(0.25, 0.25), (0.25, 0.75), (0.75, 0.25), (0.75, 0.75)]
        self.shape = np.stack([np.exp(-((y - a) ** 2 + (x - b) ** 2) / 0.01) for a, b in spots]).astype(np.float32)
        s = np.linspace(N // 8, N - N // 8, 4).astype(int)
        self.ij = np.array([(i, j) for i in s for j in s]).T

    def reset(self):
        self.T = np.full((N, N), 0.3, np.float32)
        self.power = np.full(4, 0.3, np.float32)
        self.goal = np.full(16, 0.3, np.float32) + self.rng.uniform(0, 0.3) + self.rng.normal(0, 0.02, 16).astype(np.float32)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.T[self.ij[0], self.ij[1]], self.goal, self.power]).astype(np.float32)

    def step(self, a):
        if a < 8:
            i, d = divmod(int(a), 2)
            self.power[i] = np.clip(self.power[i] + (0.1 if d else -0.1), 0, 1)
        src = np.tensordot(self.power * 0.004, self.shape, 1)
        T = self.T
        for _ in range(self.substeps):
            sq = T * T
            T = T + src
            T -= 0.02 * sq * sq
            c = fft.dctn(T, norm="ortho", overwrite_x=True)
            c *= self.damp
            T = fft.idctn(c, norm="ortho", overwrite_x=True)
        self.T = T
        self.t += 1
        o = self.obs()
        err = float(np.abs(o[:16] - o[16:32]).mean())
        return o, -err * 10, self.t >= self.horizon

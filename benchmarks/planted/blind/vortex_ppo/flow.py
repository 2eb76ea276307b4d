import gymnasium as gym
import numpy as np
import scipy.fft as sf
from gymnasium import spaces


class KolmogorovFlow(gym.Env):
    """2d forced turbulence, pseudo spectral, RK2. the agent sets the amplitude of four forcing modes and
    wants a prescribed energy (low enstrophy)."""
    metadata = {"render_modes": []}

    def __init__(self, n=128, substeps=3, horizon=200, seed=0):
        self.n, self.sub, self.T = n, substeps, horizon
        k = np.fft.fftfreq(n, 1 / n).astype(np.float32)
        kr = np.fft.rfftfreq(n, 1 / n).astype(np.float32)
        self.ky, self.kx = k[:, None], kr[None, :]
        k2 = self.kx ** 2 + self.ky ** 2
        self.ik2 = np.where(k2 > 0, 1 / np.maximum(k2, 1), 0).astype(np.float32)
        self.dt, self.nu = np.float32(0.005), np.float32(2e-3)
        self.damp = np.exp(-self.nu * k2 * self.dt - 0.1 * self.dt).astype(np.float32)
        self.mask = ((np.abs(self.kx) < n / 3) & (np.abs(self.ky) < n / 3)).astype(np.float32)
        self.ikx, self.iky = (1j * self.kx).astype(np.complex64), (1j * self.ky).astype(np.complex64)
        y = np.linspace(0, 2 * np.pi, n, endpoint=False, dtype=np.float32)
        modes = np.stack([np.broadcast_to(np.cos(m * y)[:, None], (n, n)) for m in (2, 3, 4, 6)])
        self.fhat = np.stack([sf.rfft2(m) for m in modes]).astype(np.complex64)
        self.observation_space = spaces.Box(-np.inf, np.inf, (66,), np.float32)
        self.action_space = spaces.Box(-1, 1, (4,), np.float32)
        self._rng = np.random.default_rng(seed)
        w0 = sf.rfft2(self._rng.standard_normal((n, n), dtype=np.float32)) * np.exp(-k2 / 60) * self.mask
        self.w0 = (w0 * (2.0 * n / np.abs(w0).std())).astype(np.complex64)
        zero = np.zeros_like(self.w0)
        for _ in range(60):         # spin up once
            self.w0 = self._rk(self.w0, zero)

    def _rhs(self, w, f):
        psi = w * self.ik2
        g = sf.irfft2(np.stack([self.iky * psi, -self.ikx * psi, self.ikx * w, self.iky * w]), s=(self.n, self.n))
        adv = g[0] * g[2] + g[1] * g[3]
        return f - sf.rfft2(adv) * self.mask

    def _rk(self, w, f):
        k1 = self._rhs(w, f)
        k2 = self._rhs((w + self.dt * k1) * self.damp, f)
        return (w * self.damp + 0.5 * self.dt * (k1 * self.damp + k2)).astype(np.complex64)

    def _obs(self):
        w = sf.irfft2(self.w, s=(self.n, self.n))
        b = self.n // 8
        self.ens = float((w * w).mean())
        coarse = w.reshape(8, b, 8, b).mean((1, 3)).ravel()
        o = np.empty(66, np.float32)
        o[:64] = coarse * 0.3
        o[64] = self.ens * 0.05
        o[65] = self.t / self.T
        return o

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        sh = self._rng.integers(0, self.n)
        self.w = self.w0 * np.exp(-1j * self.kx * (2 * np.pi * sh / self.n)).astype(np.complex64)
        self.t = 0
        return self._obs(), {}

    def step(self, a):
        f = np.tensordot(np.clip(a, -1, 1).astype(np.float32), self.fhat, 1) * np.float32(1.5)
        for _ in range(self.sub):
            self.w = self._rk(self.w, f)
        self.t += 1
        o = self._obs()
        r = -abs(self.ens - 8.0) * 0.1 - 0.01 * float((a * a).sum())
        return o, r, False, self.t >= self.T, {}

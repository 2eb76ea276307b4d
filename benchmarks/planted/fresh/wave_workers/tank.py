"""Damping waves in a square tank with four paddles. Pseudo-spectral solver, periodic box."""
import numpy as np


class WaveTank:
    N = 64
    SUBSTEPS = 20
    action_size = 5
    obs_size = 2 * 8 * 8

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        n = self.N
        k = np.fft.fftfreq(n, 1 / n).astype(np.float32)
        kx, ky = np.meshgrid(k, k[: n // 2 + 1], indexing="ij")
        ky = np.abs(ky)
        self.lap = -(kx ** 2 + ky ** 2)
        self.filter = np.exp(-36 * (np.sqrt(-self.lap) / (n / 2)) ** 8).astype(np.float32)
        x = np.arange(n, dtype=np.float32) / n
        X, Y = np.meshgrid(x, x, indexing="ij")
        spots = [(0.25, 0.25), (0.25, 0.75), (0.75, 0.25), (0.75, 0.75)]
        self.paddles = np.stack([np.exp(-((X - a) ** 2 + (Y - b) ** 2) / 0.01) for a, b in spots]).astype(np.float32)
        self.dt = np.float32(0.004)

    def reset(self):
        n = self.N
        spec = (self.rng.standard_normal((n, n // 2 + 1)) + 1j * self.rng.standard_normal((n, n // 2 + 1))) * (self.lap > -40)
        u = np.fft.irfft2(spec.astype(np.complex64)).astype(np.float32)
        self.u = u / np.abs(u).max()
        self.v = np.zeros_like(self.u)
        self.t = 0
        return self.observation()

    def observation(self):
        f = np.stack([self.u, self.v * 0.1])
        return f.reshape(2, 8, 8, 8, 8).mean((2, 4)).ravel().astype(np.float32)

    def step(self, action):
        drag = np.float32(0.3) if action == 4 else np.float32(0.3) + 25 * self.paddles[action]
        for _ in range(self.SUBSTEPS):
            cube = self.filter * np.fft.rfft2(self.u * self.u * self.u)
            acc = np.fft.irfft2(self.lap * np.fft.rfft2(self.u) - 30 * cube)
            self.v += self.dt * (acc - drag * self.v)
            self.u += self.dt * self.v
        self.t += 1
        energy = float((self.u ** 2).mean() + 0.02 * (self.v ** 2).mean())
        return self.observation(), -energy, self.t >= 60, {"energy": energy}

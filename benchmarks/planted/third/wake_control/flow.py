"""Pseudo-spectral solver for 2-D Kolmogorov flow with a steerable forcing."""
import numpy as np
import scipy.fft as sfft


class Kolmogorov2D:
    def __init__(self, n=160, nu=2e-3, drag=0.3, k_force=4, dt=0.005):
        self.n, self.nu, self.drag, self.dt = n, nu, drag, dt
        k = np.fft.fftfreq(n, 1.0 / n).astype(np.float32)
        kr = np.fft.rfftfreq(n, 1.0 / n).astype(np.float32)
        self.kx, self.ky = np.meshgrid(k, kr, indexing="ij")
        self.k2 = self.kx**2 + self.ky**2
        inv = self.k2.copy()
        inv[0, 0] = 1.0
        self.inv_k2 = (1.0 / inv).astype(np.float32)
        self.inv_k2[0, 0] = 0.0
        # velocity and gradient operators, stacked: one batched inverse transform per evaluation
        mask = (np.abs(self.kx) < n / 3) & (np.abs(self.ky) < n / 3)
        self.mask = mask.astype(np.float32)
        ops = [1j * self.ky * self.inv_k2, -1j * self.kx * self.inv_k2, 1j * self.kx, 1j * self.ky]
        self.ops = np.stack(ops).astype(np.complex64) * self.mask
        self.lin = np.exp(-(nu * self.k2 + drag) * dt).astype(np.float32)
        y = np.linspace(0, 2 * np.pi, n, endpoint=False, dtype=np.float32)
        x = y[:, None]
        base = -k_force * np.cos(k_force * y)[None, :] * np.ones((n, 1), np.float32)
        self.f_hat = sfft.rfft2(base)
        # four jets
        self.jets = []
        for cx, cy in ((1.5, 1.5), (1.5, 4.7), (4.7, 1.5), (4.7, 4.7)):
            r2 = (np.minimum(np.abs(x - cx), 2 * np.pi - np.abs(x - cx))) ** 2 + (
                np.minimum(np.abs(y - cy), 2 * np.pi - np.abs(y - cy))[None, :]
            ) ** 2
            self.jets.append(sfft.rfft2(np.exp(-r2 / 0.15).astype(np.float32)))
        self.jets = np.stack(self.jets)

    def random_state(self, rng):
        w = rng.standard_normal((self.n, self.n)).astype(np.float32)
        w_hat = sfft.rfft2(w) * np.exp(-((np.sqrt(self.k2) - 5.0) ** 2) / 4.0) * self.mask
        return (w_hat * 2.0).astype(np.complex64)

    def _advection(self, w_hat):
        u, v, wx, wy = sfft.irfft2(self.ops * w_hat, s=(self.n, self.n))
        u *= wx
        v *= wy
        u += v
        return sfft.rfft2(u)

    def advance(self, w_hat, force, steps):
        dt = np.float32(self.dt)
        for _ in range(steps):                     # integrating-factor Heun
            k1 = force - self._advection(w_hat)
            mid = self.lin * (w_hat + dt * k1)
            k2 = force - self._advection(mid)
            w_hat = self.lin * (w_hat + 0.5 * dt * k1) + 0.5 * dt * k2
        return w_hat

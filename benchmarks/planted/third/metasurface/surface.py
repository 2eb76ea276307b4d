"""Tunable metasurface: steer a beam with varactor-loaded elements. Mutual coupling between all elements is taken into
account, so every step solves the dense element equations at three frequencies."""
import numpy as np

WAVELENGTHS = (0.97, 1.0, 1.03)


class Metasurface:
    def __init__(self, side=16, groups=16, angles=48, episode=80, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n, self.groups, self.episode = side * side, groups, episode
        g = np.arange(side) * 0.45
        xy = np.stack(np.meshgrid(g, g, indexing="ij"), -1).reshape(-1, 2)
        r = np.linalg.norm(xy[:, None] - xy[None], axis=-1)
        np.fill_diagonal(r, 1.0)
        self.angles = np.linspace(-70, 70, angles)
        z, steer = [], []
        for lam in WAVELENGTHS:
            k = 2 * np.pi / lam
            mutual = 0.6 * np.exp(-1j * k * r) / (1j * k * r + 0.4)
            np.fill_diagonal(mutual, 1.0 + 0.2j)
            z.append(mutual)
            steer.append(np.exp(1j * k * np.sin(np.deg2rad(self.angles))[:, None] * xy[None, :, 0]))
        self.z = np.array(z, np.complex64)
        self.steer = np.array(steer, np.complex64)
        self.member = (np.arange(self.n) // side) % groups
        self.diag = np.arange(self.n)
        self.wave = np.exp(-2j * np.pi * 0.05 * xy.sum(1)).astype(np.complex64)
        self.slope = np.array([0.8, 1.0, 1.2], np.float32)
        self.obs_dim, self.act_dim = angles * len(WAVELENGTHS) + groups + 2, groups

    def _field(self):
        tune = self.slope[:, None] * self.control[self.member]
        a = self.z.copy()
        a[:, self.diag, self.diag] += 1j * tune
        current = np.linalg.solve(a, np.broadcast_to(self.wave[:, None], (len(a), self.n, 1)))
        power = np.abs(self.steer @ current)[..., 0] ** 2
        return power / power.sum(1, keepdims=True)

    def _obs(self):
        aim = np.deg2rad(self.aim)
        return np.concatenate([self.pattern.ravel() * 10, self.control, [np.sin(aim), np.cos(aim)]]).astype(np.float32)

    def reset(self):
        self.aim = self.rng.uniform(-50, 50)
        self.control = self.rng.uniform(-1, 1, self.groups).astype(np.float32)
        self.pattern = self._field()
        self.t = 0
        return self._obs()

    def step(self, action):
        self.control = np.clip(self.control + 0.5 * np.clip(action, -1, 1), -3, 3).astype(np.float32)
        self.pattern = self._field()
        near = np.abs(self.angles - self.aim) < 5
        reward = 5 * float(self.pattern[:, near].sum(1).mean()) - float(self.pattern[:, ~near].max())
        self.aim = np.clip(self.aim + self.rng.normal(0, 0.5), -60, 60)
        self.t += 1
        return self._obs(), reward, self.t >= self.episode, {}

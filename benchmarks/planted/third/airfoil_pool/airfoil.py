"""Shape optimisation of an airfoil with a vortex panel method (dense, numpy only).

The state is a set of bump amplitudes on the upper and the lower side; an action changes all of them a little. The reward is the
improvement of lift at two angles of attack, minus a penalty for strong suction peaks and for thin sections.
"""
import numpy as np

N_PANELS = 220
N_BUMPS = 4
ANGLES = np.radians([2.0, 6.0])


def cosine_spacing(n):
    return 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, n)))


class AirfoilDesign:
    obs_dim = 2 * N_BUMPS + 5
    act_dim = 2 * N_BUMPS
    episode_length = 16

    def __init__(self):
        x = cosine_spacing(N_PANELS // 2 + 1)
        self.x = np.concatenate([x[::-1], x[1:]])
        self.base = 0.6 * (0.2969 * np.sqrt(x) - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
        centres = np.array([0.15, 0.35, 0.6, 0.8])
        self.bumps = np.sin(np.pi * x[:, None] ** (np.log(0.5) / np.log(centres))) ** 3
        self.onset = np.stack([np.cos(ANGLES), np.sin(ANGLES)])
        self.nodal = np.empty((4, N_PANELS, N_PANELS + 1))
        self.square = np.empty((4, N_PANELS, N_PANELS))
        self.system = np.empty((N_PANELS + 1, N_PANELS + 1))

    def reset(self, rng):
        self.amps = 0.006 * rng.standard_normal(2 * N_BUMPS)
        self.t = 0
        self.score, self.flow = self._analyse()
        return self._observe()

    def _observe(self):
        return np.concatenate([self.amps / 0.02, self.flow, [self.t / self.episode_length]]).astype(np.float32)

    def _surface(self):
        upper = self.base + self.bumps @ self.amps[:N_BUMPS]
        lower = -self.base + self.bumps @ self.amps[N_BUMPS:]
        return np.concatenate([lower[::-1], upper[1:]]), (upper - lower)

    def _analyse(self):
        """Constant-strength vortex panels with a Kutta condition; returns score and (cl, cl, peak, thickness)."""
        z, thickness = self._surface()
        dx, dz = np.diff(self.x), np.diff(z)
        length = np.hypot(dx, dz)
        tx, tz = dx / length, dz / length
        mx, mz = self.x[:-1] + 0.5 * dx, z[:-1] + 0.5 * dz

        rx, rz, r2, tmp = self.nodal
        turn, dot, log, cos = self.square
        np.subtract(mx[:, None], self.x, out=rx)
        np.subtract(mz[:, None], z, out=rz)
        np.multiply(rx, rx, out=r2)
        r2 += np.multiply(rz, rz, out=tmp)
        np.log(r2, out=r2)
        np.subtract(r2[:, 1:], r2[:, :-1], out=log)
        ax, az, bx, bz = rx[:, :-1], rz[:, :-1], rx[:, 1:], rz[:, 1:]
        np.multiply(ax, bz, out=turn)
        turn -= np.multiply(az, bx, out=cos)
        np.multiply(ax, bx, out=dot)
        dot += np.multiply(az, bz, out=cos)
        np.arctan2(turn, dot, out=turn)
        np.fill_diagonal(turn, np.pi)
        # velocity of a unit vortex panel in its own axes is (turn, log / 2) / 2 pi; tangential part at the control points
        tangent = np.stack([tx, tz]) / (2.0 * np.pi)
        turn *= np.matmul(np.stack([tx, tz], axis=1), tangent, out=cos)
        log *= np.matmul(np.stack([0.5 * tz, -0.5 * tx], axis=1), tangent, out=cos)
        a = self.system
        np.add(turn, log, out=a[:-1, :-1])
        a[:-1, -1] = 1.0
        a[-1] = 0.0
        a[-1, 0] = a[-1, N_PANELS - 1] = 1.0
        rhs = np.zeros((N_PANELS + 1, 2))
        rhs[:-1] = -(tx[:, None] * self.onset[0] + tz[:, None] * self.onset[1])
        gamma = np.linalg.solve(a, rhs)[:-1]

        lift = 2.0 * np.abs((gamma * length[:, None]).sum(0))
        peak = np.sqrt(np.abs(gamma)).max()
        thin = np.maximum(0.04 - thickness[5:-5].max(), 0.0)
        flow = np.clip(np.array([lift[0], lift[1], peak, 10.0 * thickness.max()]), -10.0, 10.0)
        return float(np.clip(lift, 0.0, 4.0).mean() - 0.1 * flow[2] - 20.0 * thin), flow

    def step(self, action):
        self.t += 1
        self.amps = np.clip(self.amps + 0.004 * action, -0.04, 0.04)
        before = self.score
        self.score, self.flow = self._analyse()
        return self._observe(), self.score - before, self.t >= self.episode_length

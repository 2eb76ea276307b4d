"""planar quad, 2 rotors. state = x z vx vz theta omega, target somewhere in the box"""
import numpy as np

G = 9.81
MASS = 0.8
ARM = 0.2
INERTIA = 0.012


class DroneBatch:
    obs_dim = 8
    act_dim = 2

    def __init__(self, n, max_t=250, wind=0.3, dt=0.05, seed=0):
        self.n = n
        self.max_t = max_t
        self.wind = wind
        self.dt = dt
        self.rng = np.random.default_rng(seed)
        self.s = np.zeros((n, 6), np.float32)
        self.goal = np.zeros((n, 2), np.float32)
        self.t = np.zeros(n, np.int64)
        self.ret = np.zeros(n, np.float32)

    def _spawn(self, idx):
        k = len(idx)
        self.s[idx] = self.rng.uniform(-0.3, 0.3, (k, 6)).astype(np.float32)
        self.goal[idx] = self.rng.uniform(-2, 2, (k, 2)).astype(np.float32)
        self.t[idx] = 0
        self.ret[idx] = 0.0

    def _obs(self):
        o = np.empty((self.n, 8), np.float32)
        o[:, 0:2] = self.goal - self.s[:, 0:2]
        o[:, 2:4] = self.s[:, 2:4]
        o[:, 4] = np.sin(self.s[:, 4])
        o[:, 5] = np.cos(self.s[:, 4])
        o[:, 6] = self.s[:, 5]
        o[:, 7] = self.t / self.max_t
        return o

    def reset(self):
        self._spawn(np.arange(self.n))
        return self._obs()

    def step(self, a):
        a = np.clip(a, -1, 1)
        thrust = MASS * G * 0.5 * (1.0 + 0.6 * a)
        tot = thrust.sum(1)
        tau = (thrust[:, 1] - thrust[:, 0]) * ARM
        s, dt = self.s, self.dt
        gust = self.wind * self.rng.standard_normal(self.n).astype(np.float32)
        ax = -np.sin(s[:, 4]) * tot / MASS + gust
        az = np.cos(s[:, 4]) * tot / MASS - G
        s[:, 2] += ax * dt
        s[:, 3] += az * dt
        s[:, 5] += (tau / INERTIA * 0.1 - 0.4 * s[:, 5]) * dt
        s[:, 0] += s[:, 2] * dt
        s[:, 1] += s[:, 3] * dt
        s[:, 4] += s[:, 5] * dt
        self.t += 1
        d = np.linalg.norm(self.goal - s[:, :2], axis=1)
        rew = 1.0 - 0.5 * d - 0.02 * np.abs(s[:, 5]) - 0.01 * (a ** 2).sum(1)
        # NOTE crash is not terminal any more, only penalised -- episodes were too short early on
        rew = np.where(d > 4.0, rew - 1.0, rew).astype(np.float32) * 0.1
        np.clip(s, -5, 5, out=s)
        self.ret += rew
        done = self.t >= self.max_t
        fin = []
        if done.any():
            idx = np.nonzero(done)[0]
            fin = self.ret[idx].tolist()
            self._spawn(idx)
        return self._obs(), rew, done, fin

import numpy as np


class QuadBatch:
    """many planar quadrotors at once: fly to a way point, then to the next one"""

    obs_dim = 10
    act_dim = 2

    def __init__(self, n, seed=0, horizon=250):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)

    def _fresh(self, k):
        s = np.zeros((k, 6), np.float32)
        s[:, :2] = self.rng.uniform(-1, 1, (k, 2))
        s[:, 4] = self.rng.normal(0, 0.1, k)
        return s

    def reset(self):
        self.s = self._fresh(self.n)
        self.goal = self.rng.uniform(-1, 1, (self.n, 2)).astype(np.float32)
        self.t = self.rng.integers(0, self.horizon, self.n)
        return self.obs()

    def obs(self):
        o = np.empty((self.n, 10), np.float32)
        o[:, :2] = self.goal - self.s[:, :2]
        o[:, 2:4] = self.s[:, 2:4]
        o[:, 4] = np.sin(self.s[:, 4])
        o[:, 5] = np.cos(self.s[:, 4])
        o[:, 6] = self.s[:, 5] * 0.2
        o[:, 7:9] = self.s[:, :2]
        o[:, 9] = self.t / self.horizon
        return o

    def step(self, u):
        s, dt = self.s, np.float32(0.04)
        u = np.clip(u, -1, 1)
        thrust = 9.8 * (1 + 0.5 * (u[:, 0] + u[:, 1]))
        s[:, 5] += dt * (12 * (u[:, 1] - u[:, 0]) - 0.5 * s[:, 5])
        s[:, 4] += dt * s[:, 5]
        s[:, 2] += dt * (-thrust * np.sin(s[:, 4]) - 0.1 * s[:, 2])
        s[:, 3] += dt * (thrust * np.cos(s[:, 4]) - 9.8 - 0.1 * s[:, 3])
        s[:, :2] += dt * s[:, 2:4]
        d = self.goal - s[:, :2]
        dist = np.sqrt((d * d).sum(1))
        hit = dist < 0.1
        rew = 0.2 * (1 - dist) + hit
        if hit.any():
            self.goal[hit] = self.rng.uniform(-1, 1, (int(hit.sum()), 2))
        self.t += 1
        crash = (np.abs(s[:, :2]) > 2).any(1) | (np.abs(s[:, 4]) > 2.5)
        rew = (rew - 2.0 * crash).astype(np.float32)
        done = crash | (self.t >= self.horizon)
        if done.any():
            k = int(done.sum())
            s[done] = self._fresh(k)
            self.t[done] = 0
        return self.obs(), rew, done.astype(np.float32)

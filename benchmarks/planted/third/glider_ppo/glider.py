"""Glider in a field of thermals, vectorised over gliders with numpy."""
import numpy as np


class GliderFleet:
    def __init__(self, num_envs, seed, horizon=400, n_thermals=6):
        self.num_envs, self.horizon, self.k = num_envs, horizon, n_thermals
        self.rng = np.random.default_rng(seed)
        self.xy = np.zeros((num_envs, 2), np.float32)
        self.alt = np.zeros(num_envs, np.float32)
        self.heading = np.zeros(num_envs, np.float32)
        self.speed = np.zeros(num_envs, np.float32)
        self.centers = np.zeros((num_envs, n_thermals, 2), np.float32)
        self.strength = np.zeros((num_envs, n_thermals), np.float32)
        self.t = np.zeros(num_envs, np.int32)
        self.episode_return = np.zeros(num_envs, np.float32)
        self.obs_dim, self.act_dim = 8, 2

    def _spawn(self, mask):
        k = int(mask.sum())
        if not k:
            return
        r = self.rng
        self.xy[mask] = r.uniform(-1, 1, (k, 2))
        self.alt[mask] = r.uniform(0.4, 0.8, k)
        self.heading[mask] = r.uniform(-np.pi, np.pi, k)
        self.speed[mask] = 1.0
        self.centers[mask] = r.uniform(-3, 3, (k, self.k, 2))
        self.strength[mask] = r.uniform(0.5, 1.5, (k, self.k))
        self.t[mask] = 0
        self.episode_return[mask] = 0

    def _lift(self, xy):
        d2 = ((self.centers - xy[:, None]) ** 2).sum(-1)
        return (self.strength * np.exp(-d2 / 0.35)).sum(1)

    def observe(self):
        c, s = np.cos(self.heading), np.sin(self.heading)
        left = self.xy + 0.2 * np.stack([-s, c], 1)
        right = self.xy - 0.2 * np.stack([-s, c], 1)
        mid, lo, ro = self._lift(self.xy), self._lift(left), self._lift(right)
        return np.stack([self.xy[:, 0] / 3, self.xy[:, 1] / 3, self.alt, c, s, self.speed - 1, mid, lo - ro], 1).astype(np.float32)

    def reset(self):
        self._spawn(np.ones(self.num_envs, bool))
        return self.observe()

    def step(self, action):
        a = np.clip(action, -1, 1)
        self.heading += 0.25 * a[:, 0]
        self.speed += 0.1 * (1 + 0.4 * a[:, 1] - self.speed)
        self.xy += 0.08 * self.speed[:, None] * np.stack([np.cos(self.heading), np.sin(self.heading)], 1)
        sink = 0.012 * self.speed ** 2 + 0.006 * a[:, 0] ** 2
        climb = 0.03 * self._lift(self.xy) - sink
        self.alt += climb
        self.t += 1
        crashed = self.alt <= 0
        reward = (10 * climb - 1.0 * crashed).astype(np.float32)
        self.episode_return += reward
        self.alt = np.minimum(self.alt, 1.5)
        done = crashed | (self.t >= self.horizon) | (np.abs(self.xy).max(1) > 5)
        infos = self.episode_return[done].copy()
        self._spawn(done)
        return self.observe(), reward, done, infos

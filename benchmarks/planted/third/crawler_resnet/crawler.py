"""Planar crawler: a chain of segments on a viscous ground. Batched numpy."""
import numpy as np


class CrawlerBatch:
    def __init__(self, num, segments, episode, seed):
        self.num, self.m, self.episode = num, segments, episode
        self.rng = np.random.default_rng(seed)
        self.angle = np.zeros((num, segments), np.float32)
        self.vel = np.zeros((num, segments), np.float32)
        self.phase = np.zeros(num, np.float32)
        self.base = np.zeros(num, np.float32)
        self.t = np.zeros(num, np.int32)
        self.score = np.zeros(num, np.float32)
        self.obs_dim, self.act_dim = 2 * segments + 4, segments
        idx = np.arange(segments)
        self.coupling = (0.4 * (np.abs(idx[:, None] - idx[None]) == 1)).astype(np.float32)

    def _reset(self, mask):
        k = int(mask.sum())
        if k:
            self.angle[mask] = self.rng.normal(0, 0.2, (k, self.m))
            self.vel[mask] = 0
            self.phase[mask] = self.rng.uniform(0, 2 * np.pi, k)
            self.base[mask] = 0
            self.t[mask] = 0
            self.score[mask] = 0

    def obs(self):
        extra = np.stack([np.sin(self.phase), np.cos(self.phase), self.base, self.t / self.episode], 1)
        return np.concatenate([self.angle, self.vel, extra], 1).astype(np.float32)

    def reset(self):
        self._reset(np.ones(self.num, bool))
        return self.obs()

    def step(self, torque):
        u = np.clip(torque, -1, 1)
        acc = 4 * u - 2.5 * self.angle - 0.8 * self.vel + self.angle @ self.coupling
        self.vel += 0.05 * acc
        self.angle += 0.05 * self.vel
        thrust = np.sum(self.vel[:, 1:] * np.sin(self.angle[:, :-1] - self.angle[:, 1:]), 1)
        self.base = 0.9 * self.base + 0.1 * thrust
        self.phase = (self.phase + 0.1) % (2 * np.pi)
        self.t += 1
        reward = (self.base - 0.01 * np.square(u).sum(1)).astype(np.float32)
        self.score += reward
        done = self.t >= self.episode
        scores = self.score[done].copy()
        self._reset(done)
        return self.obs(), reward, done, scores

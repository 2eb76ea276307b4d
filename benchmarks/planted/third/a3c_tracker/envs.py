import numpy as np


class TrackerBatch:
    """Follow a moving target on a ring whose position is shown only now and then. n copies in numpy, same clock."""

    obs_dim = 6
    n_actions = 5

    def __init__(self, n, horizon=240, seed=0):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        self.me = self.rng.uniform(-np.pi, np.pi, self.n)
        self.target = self.rng.uniform(-np.pi, np.pi, self.n)
        self.speed = self.rng.choice([-0.12, -0.06, 0.06, 0.12], self.n)
        return self._obs()

    def _obs(self):
        seen = self.rng.random(self.n) < 0.25
        obs = np.stack([np.sin(self.me), np.cos(self.me), seen, seen * np.sin(self.target), seen * np.cos(self.target),
                        np.full(self.n, self.t / self.horizon)], axis=1)
        return obs.astype(np.float32)

    def step(self, action):
        self.t += 1
        self.me += 0.08 * (action - 2)
        self.target += self.speed
        reward = np.cos(self.me - self.target)
        return self._obs(), reward.astype(np.float32), self.t >= self.horizon

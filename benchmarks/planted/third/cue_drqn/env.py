"""Remember-the-cue corridors, several at once in numpy.

The first observation shows one of four cues, then a noisy corridor follows; at the end the agent has to leave through the door that
belongs to the cue. On the way it collects coins by being in the right lane.
"""
import numpy as np

N_CUES, N_LANES = 4, 4


class CorridorBatch:
    obs_dim = N_CUES + N_LANES * 2 + 2
    n_actions = 4

    def __init__(self, n, horizon=32, seed=0):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        self.cue = self.rng.integers(N_CUES, size=self.n)
        self.lane = self.rng.integers(N_LANES, size=self.n)
        self.coins = self.rng.integers(N_LANES, size=(self.horizon + 1, self.n))
        return self._obs()

    def _obs(self):
        obs = np.zeros((self.n, self.obs_dim), dtype=np.float32)
        rows = np.arange(self.n)
        if self.t == 0:
            obs[rows, self.cue] = 1.0
        obs[rows, N_CUES + self.lane] = 1.0
        obs[rows, N_CUES + N_LANES + self.coins[self.t]] = 1.0
        obs[:, -2] = self.t / self.horizon
        obs[:, -1] = self.t == self.horizon - 1
        return obs

    def step(self, action):
        last = self.t == self.horizon - 1
        if last:
            reward = np.where(action == self.cue, 3.0, -1.0)
        else:
            reward = 0.1 * (action == self.coins[self.t])
            self.lane = action
        self.t += 1
        return self._obs(), reward.astype(np.float32), self.t == self.horizon

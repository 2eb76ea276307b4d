"""A batch of corridors. The cue is shown in the first steps, distractors follow, and at
the junction (last step) the agent has to name the cue. All corridors have the same length."""
import numpy as np


class CorridorBatch:
    def __init__(self, n_envs, length, n_cues, seed=0):
        self.n, self.length, self.n_cues = n_envs, length, n_cues
        self.rng = np.random.default_rng(seed)
        self.obs_dim = n_cues + 3
        self.n_actions = n_cues + 1     # names, and "walk"

    def reset(self):
        self.t = 0
        self.cue = self.rng.integers(self.n_cues, size=self.n)
        return self._obs()

    def _obs(self):
        o = np.zeros((self.n, self.obs_dim), dtype=np.float32)
        if self.t < 3:
            o[np.arange(self.n), self.cue] = 1.0
        o[:, -3] = self.t / self.length
        o[:, -2] = self.rng.random(self.n) - 0.5
        o[:, -1] = float(self.t == self.length - 1)
        return o

    def step(self, actions):
        last = self.t == self.length - 1
        walk = actions == self.n_cues
        if last:
            reward = np.where(actions == self.cue, 1.0, -0.2)
        else:
            reward = np.where(walk, 0.01, -0.02)
        self.t += 1
        done = np.full(self.n, last)
        return self._obs(), reward.astype(np.float32), done, {}

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class TMaze(gym.Env):
    """A cue at the start of a corridor tells which way to turn at its end."""

    def __init__(self, length=60, n_noise=4):
        self.length, self.n_noise = length, n_noise
        self.observation_space = spaces.Box(-2, 2, (4 + n_noise,), np.float32)
        self.action_space = spaces.Discrete(4)  # forward, back, left, right

    def _obs(self):
        o = np.empty(4 + self.n_noise, np.float32)
        o[0] = self.cue if self.t == 0 else 0.0
        o[1] = self.x == self.length
        o[2] = self.x / self.length
        o[3] = 1.0
        o[4:] = self.np_random.standard_normal(self.n_noise) * 0.3
        return o

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue = 1.0 if self.np_random.random() < 0.5 else -1.0
        self.x, self.t = 0, 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        r, done = -0.01, False
        if self.x == self.length:
            if action >= 2:
                r, done = (4.0 if (action == 2) == (self.cue > 0) else -1.0), True
        elif action == 0:
            self.x += 1
            r = 0.01
        elif action == 1:
            self.x = max(0, self.x - 1)
        return self._obs(), r, done, self.t >= 3 * self.length, {}

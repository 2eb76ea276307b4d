import gymnasium as gym
import numpy as np
from gymnasium import spaces


class HazardNav(gym.Env):
    """Point robot: reach the goal, stay out of the hazards. The cost of a step is in info["cost"]."""

    metadata = {"render_modes": []}

    def __init__(self, n_hazards=5, max_steps=200):
        self.n_hazards, self.max_steps = n_hazards, max_steps
        dim = 4 + 2 + 2 * n_hazards
        self.observation_space = spaces.Box(-np.inf, np.inf, (dim,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def _obs(self):
        rel = (self.hazards - self.pos).ravel()
        return np.concatenate([self.pos, self.vel, self.goal - self.pos, rel]).astype(np.float32)

    def _new_goal(self):
        self.goal = self.np_random.uniform(-1.5, 1.5, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos = self.np_random.uniform(-1.5, 1.5, 2)
        self.vel = np.zeros(2)
        self.hazards = self.np_random.uniform(-1.5, 1.5, (self.n_hazards, 2))
        self._new_goal()
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        before = np.hypot(*(self.goal - self.pos))
        self.vel = 0.8 * self.vel + 0.05 * np.clip(action, -1, 1)
        self.pos = np.clip(self.pos + self.vel, -2, 2)
        after = np.hypot(*(self.goal - self.pos))
        reward = float(before - after)
        if after < 0.2:
            reward += 1.0
            self._new_goal()
        d2 = ((self.hazards - self.pos) ** 2).sum(1)
        cost = float((d2 < 0.09).any())
        self.steps += 1
        return self._obs(), reward, False, self.steps >= self.max_steps, {"cost": cost}

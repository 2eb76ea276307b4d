import gymnasium as gym
import numpy as np


class PlanarArm(gym.Env):
    def __init__(self, links=3, max_steps=100, goal_radius=0.05):
        self.n, self.max_steps, self.radius = links, max_steps, goal_radius
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * links + 4,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (links,), np.float32)

    def _tip(self):
        a = np.cumsum(self.q)
        return np.array([np.cos(a).sum(), np.sin(a).sum()]) / self.n

    def _obs(self):
        tip = self._tip()
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq, tip, self.goal - tip]).astype(np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-np.pi, np.pi, self.n)
        self.dq = np.zeros(self.n)
        r, phi = self.np_random.uniform(0.2, 0.9), self.np_random.uniform(-np.pi, np.pi)
        self.goal = r * np.array([np.cos(phi), np.sin(phi)])
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.dq = 0.9 * self.dq + 0.1 * np.asarray(action)
        self.q = self.q + 0.5 * self.dq
        self.t += 1
        d = np.linalg.norm(self.goal - self._tip())
        r = -d - 0.01 * np.square(action).sum() + (d < self.radius)
        return self._obs(), float(r), False, self.t >= self.max_steps, {"is_success": bool(d < self.radius)}

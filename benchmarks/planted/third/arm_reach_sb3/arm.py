"""Planar arm with torque-free joint velocity control; the tip has to follow a goal that drifts."""
import gymnasium as gym
import numpy as np


class PlanarArm(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, links=4, horizon=100, control_penalty=0.01):
        self.links = links
        self.horizon = horizon
        self.control_penalty = control_penalty
        self.length = 1.0 / links
        self.action_space = gym.spaces.Box(-1.0, 1.0, (links,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * links + 6,), np.float32)

    def _tip(self):
        total = np.cumsum(self.q)
        return self.length * np.array([np.cos(total).sum(), np.sin(total).sum()])

    def _obs(self):
        tip = self.tip
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.qd, tip, self.goal, self.goal - tip]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-1.0, 1.0, self.links)
        self.qd = np.zeros(self.links)
        r, phi = self.np_random.uniform(0.3, 0.9), self.np_random.uniform(-np.pi, np.pi)
        self.goal = r * np.array([np.cos(phi), np.sin(phi)])
        self.drift = self.np_random.normal(0.0, 0.003, 2)
        self.t = 0
        self.tip = self._tip()
        return self._obs(), {}

    def step(self, action):
        self.qd = 0.7 * self.qd + 0.3 * np.asarray(action, np.float64)
        self.q = self.q + 0.15 * self.qd
        self.goal = self.goal + self.drift
        self.tip = self._tip()
        d = float(np.linalg.norm(self.goal - self.tip))
        reward = -d + (0.5 if d < 0.05 else 0.0) - self.control_penalty * float(np.square(action).sum())
        self.t += 1
        return self._obs(), reward, False, self.t >= self.horizon, {}

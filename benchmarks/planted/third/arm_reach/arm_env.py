import gymnasium as gym
import numpy as np


class PlanarArm(gym.Env):
    """Torque-driven planar arm with six joints; bring the tip to the target."""

    def __init__(self, joints=6, max_steps=150):
        self.joints, self.max_steps = joints, max_steps
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * joints + 4,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (joints,), np.float32)

    def _tip(self):
        a = np.cumsum(self.q)
        return np.array([np.cos(a).sum(), np.sin(a).sum()]) / self.joints

    def _obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq, self.goal, self.goal - self._tip()]).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.normal(0, 0.3, self.joints)
        self.dq = np.zeros(self.joints)
        r, phi = self.np_random.uniform(0.3, 0.9), self.np_random.uniform(-np.pi, np.pi)
        self.goal = np.array([r * np.cos(phi), r * np.sin(phi)])
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.dq += 0.05 * (6 * action - 1.5 * self.dq - 0.3 * np.sin(self.q))
        self.q += 0.05 * self.dq
        self.t += 1
        obs = self._obs()
        reward = -float(np.hypot(obs[-2], obs[-1])) - 0.005 * float(action @ action)
        return obs, reward, False, self.t >= self.max_steps, {}

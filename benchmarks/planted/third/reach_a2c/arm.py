"""Three-link planar arm that has to reach a moving target."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces

LINKS = np.array([0.5, 0.4, 0.3])


class ReachEnv(gym.Env):
    metadata = {"render_modes": []}

    def __init__(self, limit: int = 200, dt: float = 0.04):
        self.limit, self.dt = limit, dt
        self.observation_space = spaces.Box(-np.inf, np.inf, (13,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.q = self.np_random.uniform(-np.pi, np.pi, 3)
        self.dq = np.zeros(3)
        self.angle = self.np_random.uniform(-np.pi, np.pi)
        self.radius = self.np_random.uniform(0.4, 1.0)
        self.speed = self.np_random.uniform(-0.8, 0.8)
        self.t = 0
        return self._obs(), {}

    def _points(self):
        heading = np.cumsum(self.q)
        tip = np.array([LINKS @ np.cos(heading), LINKS @ np.sin(heading)])
        target = self.radius * np.array([np.cos(self.angle), np.sin(self.angle)])
        return tip, target

    def _obs(self):
        self.tip, self.target = self._points()
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq, self.target,
                               self.target - self.tip]).astype(np.float32)

    def step(self, action):
        torque = np.clip(action, -1.0, 1.0)
        self.dq = 0.95 * self.dq + 6.0 * self.dt * torque
        self.q = self.q + self.dt * self.dq
        self.angle += self.dt * self.speed
        self.t += 1
        obs = self._obs()
        dist = float(np.hypot(*(self.target - self.tip)))
        reward = -dist + 0.5 * np.exp(-20 * dist * dist) - 0.01 * float(torque @ torque)
        return obs, reward, False, self.t >= self.limit, {}

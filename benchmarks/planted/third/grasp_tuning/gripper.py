"""Grip forces for slippery objects; many grippers are simulated at once (numpy arrays)."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

SUBSTEPS = 4
DT = 0.01
FINGERS = 3


class GripperVecEnv(gym.vector.VectorEnv):
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int, limit: int = 120):
        self.num_envs, self.limit = num_envs, limit
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (4 * FINGERS + 4,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (FINGERS,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        n = num_envs
        self.force = np.zeros((n, FINGERS), np.float32)
        self.slip = np.zeros((n, FINGERS), np.float32)
        self.micro = np.zeros((n, FINGERS), np.float32)
        self.friction = np.ones((n, FINGERS), np.float32)
        self.weight = np.ones(n, np.float32)
        self.fragile = np.ones(n, np.float32)
        self.height = np.zeros(n, np.float32)
        self.pull = np.zeros(n, np.float32)
        self.t = np.zeros(n, np.int64)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self._renew(np.ones(self.num_envs, bool))
        self.t[:] = self.rng.integers(0, self.limit, self.num_envs)     # not all at once
        return self._obs(), {}

    def _renew(self, mask):
        k = int(mask.sum())
        self.force[mask] = self.rng.uniform(0.5, 1.5, (k, FINGERS))
        self.slip[mask] = 0.0
        self.friction[mask] = self.rng.uniform(0.3, 0.9, (k, FINGERS))
        self.weight[mask] = self.rng.uniform(0.3, 1.2, k)
        self.fragile[mask] = self.rng.uniform(2.0, 5.0, k)
        self.height[mask] = 0.0
        self.pull[mask] = 0.0
        self.t[mask] = 0

    def step(self, actions):
        target = 2.5 * (np.clip(actions, -1.0, 1.0) + 1.0)
        self.pull += 0.3 * self.rng.standard_normal(self.num_envs).astype(np.float32) - 0.1 * self.pull
        for _ in range(SUBSTEPS):
            self.force += 20.0 * DT * (target - self.force)
            load = (self.weight * 1.5 + np.abs(self.pull) * 0.3)[:, None] / FINGERS
            over = load - self.friction * self.force
            self.slip = np.maximum(0.9 * self.slip + DT * 30.0 * over, 0.0)
            self.micro = 0.8 * self.micro + 0.2 * np.tanh(over)
        self.height -= DT * self.slip.sum(1)
        self.t += 1
        crushed = self.force.max(1) > self.fragile
        dropped = self.height < -1.0
        reward = 0.2 - 0.3 * self.slip.sum(1) - 0.03 * self.force.mean(1) - 3.0 * (crushed | dropped)
        truncated = self.t >= self.limit
        terminated = crushed | dropped
        over = terminated | truncated
        if over.any():
            self._renew(over)
        return self._obs(), reward.astype(np.float32), terminated, truncated, {}

    def _obs(self):
        noise = 0.02 * self.rng.standard_normal(self.micro.shape).astype(np.float32)
        return np.concatenate(
            [self.force / 5.0, self.slip, self.micro + noise, np.sign(self.micro),
             self.weight[:, None], self.fragile[:, None] / 5.0, self.height[:, None],
             self.t[:, None] / self.limit], axis=1).astype(np.float32)

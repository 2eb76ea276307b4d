import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space


class ReacherVec(gym.vector.VectorEnv):
    """Two-joint arm, all copies in one set of numpy arrays."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs=64, horizon=150, seed=0):
        self.num_envs, self.horizon = num_envs, horizon
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rng = np.random.default_rng(seed)
        self.q = np.zeros((num_envs, 2), np.float32)
        self.dq = np.zeros((num_envs, 2), np.float32)
        self.goal = np.zeros((num_envs, 2), np.float32)
        self.t = np.zeros(num_envs, np.int64)

    def _spawn(self, mask):
        k = int(mask.sum())
        self.q[mask] = self.rng.uniform(-np.pi, np.pi, (k, 2))
        self.dq[mask] = 0
        phi, rad = self.rng.uniform(-np.pi, np.pi, k), self.rng.uniform(0.3, 1.8, k)
        self.goal[mask] = np.stack([rad * np.cos(phi), rad * np.sin(phi)], 1)
        self.t[mask] = self.rng.integers(0, 20, k)

    def _tip(self):
        a, b = self.q[:, 0], self.q[:, 0] + self.q[:, 1]
        return np.stack([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)], 1)

    def _obs(self):
        tip = self._tip()
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq, self.goal, self.goal - tip], 1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._spawn(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, actions):
        self.dq = (0.95 * self.dq + 0.15 * np.clip(actions, -1, 1)).astype(np.float32)
        self.q = self.q + 0.1 * self.dq
        self.t += 1
        dist = np.linalg.norm(self.goal - self._tip(), axis=1)
        reward = (-dist - 0.05 * (np.asarray(actions) ** 2).sum(1)).astype(np.float32)
        trunc = self.t >= self.horizon
        term = np.zeros(self.num_envs, bool)
        if trunc.any():
            self._spawn(trunc)
        return self._obs(), reward, term, trunc, {}

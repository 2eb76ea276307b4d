"""Two-link arm with flexible joints, torque control; `num_envs` arms as numpy arrays."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

M1, M2, L1, L2, G = 1.0, 0.8, 0.6, 0.5, 9.81
DT, SUBSTEPS = 0.005, 4


class FlexArmVecEnv(gym.vector.VectorEnv):
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int, limit: int = 250, seed: int = 0):
        self.num_envs, self.limit = num_envs, limit
        self.rng = np.random.default_rng(seed)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (12,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.q, self.dq = np.zeros((2, num_envs, 2))
        self.motor, self.dmotor = np.zeros((2, num_envs, 2))
        self.goal = np.zeros((num_envs, 2))
        self.t = np.zeros(num_envs, int)

    def _renew(self, mask):
        k = int(mask.sum())
        self.q[mask] = self.rng.uniform(-1.5, 1.5, (k, 2))
        self.dq[mask] = 0.0
        self.motor[mask] = self.q[mask]
        self.dmotor[mask] = 0.0
        self.goal[mask] = self.rng.uniform(-1.5, 1.5, (k, 2))
        self.t[mask] = 0

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._renew(np.ones(self.num_envs, bool))
        self.t[:] = self.rng.integers(0, self.limit, self.num_envs)
        return self._obs(), {}

    def step(self, actions):
        torque = 15.0 * np.clip(actions, -1.0, 1.0)
        for _ in range(SUBSTEPS):
            spring = 120.0 * (self.motor - self.q) + 2.0 * (self.dmotor - self.dq)
            c2, s2 = np.cos(self.q[:, 1]), np.sin(self.q[:, 1])
            a = M1 * L1 ** 2 / 3 + M2 * (L1 ** 2 + L2 ** 2 / 3 + L1 * L2 * c2)
            b = M2 * (L2 ** 2 / 3 + 0.5 * L1 * L2 * c2)
            d = M2 * L2 ** 2 / 3
            h = 0.5 * M2 * L1 * L2 * s2
            w1, w2 = self.dq[:, 0], self.dq[:, 1]
            f1 = spring[:, 0] + h * (2 * w1 * w2 + w2 ** 2) - 0.2 * w1
            f2 = spring[:, 1] - h * w1 ** 2 - 0.2 * w2
            det = a * d - b * b
            self.dq = self.dq + DT * np.stack([(d * f1 - b * f2) / det, (a * f2 - b * f1) / det], axis=1)
            self.dmotor += DT * (torque - spring - 0.5 * self.dmotor) / 0.1
            self.q += DT * self.dq
            self.motor += DT * self.dmotor
        np.clip(self.dq, -30.0, 30.0, out=self.dq)
        np.clip(self.dmotor, -30.0, 30.0, out=self.dmotor)
        self.t += 1
        error = self.goal - self.q
        reward = -np.abs(error).sum(1) - 0.02 * (self.dq ** 2).sum(1) - 0.01 * (np.asarray(actions) ** 2).sum(1)
        truncated = self.t >= self.limit
        if truncated.any():
            self._renew(truncated)
        return self._obs(), reward.astype(np.float32), np.zeros(self.num_envs, bool), truncated, {}

    def _obs(self):
        return np.concatenate([np.cos(self.q), np.sin(self.q), self.dq * 0.1, self.motor - self.q,
                               self.dmotor * 0.1, self.goal - self.q], axis=1).astype(np.float32)

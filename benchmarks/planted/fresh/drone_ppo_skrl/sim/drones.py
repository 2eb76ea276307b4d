import copy

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space


class DroneSwarm(gym.vector.VectorEnv):
    """Planar drones fly through a list of gates. One array row for each drone."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs=128, horizon=300, gates=6):
        self.num_envs, self.horizon, self.gates = num_envs, horizon, gates
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (12,), np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.level = 0.3
        self.rng = np.random.default_rng(0)
        self.s = np.zeros((num_envs, 6), np.float32)  # x z vx vz pitch rate
        self.course = np.zeros((num_envs, gates, 2), np.float32)
        self.next = np.zeros(num_envs, np.int64)
        self.t = np.zeros(num_envs, np.int64)

    def clone(self):
        return copy.deepcopy(self)

    def _spawn(self, mask):
        k = int(mask.sum())
        self.s[mask] = 0
        self.s[mask, :2] = self.rng.uniform(-0.2, 0.2, (k, 2))
        steps = self.rng.normal(0, 1, (k, self.gates, 2)) * self.level + np.array([0.8, 0.0])
        self.course[mask] = np.cumsum(steps, 1)
        self.next[mask] = 0
        self.t[mask] = 0

    def _obs(self):
        rows = np.arange(self.num_envs)
        g1 = self.course[rows, self.next] - self.s[:, :2]
        g2 = self.course[rows, np.minimum(self.next + 1, self.gates - 1)] - self.s[:, :2]
        pitch = self.s[:, 4:5]
        return np.concatenate(
            [g1, g2, self.s[:, 2:4], np.cos(pitch), np.sin(pitch), self.s[:, 5:6], (self.next / self.gates)[:, None], self.s[:, :2] * 0.1], 1
        ).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._spawn(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, actions):
        a = np.clip(np.asarray(actions, np.float32), -1, 1)
        thrust, torque = 9.81 * (1 + 0.6 * a[:, 0]), 8.0 * a[:, 1]
        rows = np.arange(self.num_envs)
        gate = self.course[rows, self.next]
        before = np.linalg.norm(gate - self.s[:, :2], axis=1)
        dt = 0.02
        self.s[:, 5] += dt * (torque - 2.0 * self.s[:, 5])
        self.s[:, 4] += dt * self.s[:, 5]
        self.s[:, 2] += dt * (thrust * np.sin(self.s[:, 4]) - 0.3 * self.s[:, 2])
        self.s[:, 3] += dt * (thrust * np.cos(self.s[:, 4]) - 9.81 - 0.3 * self.s[:, 3])
        self.s[:, :2] += dt * self.s[:, 2:4]
        self.t += 1
        after = np.linalg.norm(gate - self.s[:, :2], axis=1)
        hit = after < 0.25
        self.next = np.minimum(self.next + hit, self.gates - 1)
        finished = hit & (gate == self.course[:, -1]).all(1)
        lost = (after > 5.0) | (np.abs(self.s[:, 4]) > 2.5)
        reward = (4.0 * (before - after) + 2.0 * hit - 5.0 * lost - 0.01).astype(np.float32)
        term = lost | finished
        trunc = (self.t >= self.horizon) & ~term
        over = term | trunc
        if over.any():
            self._spawn(over)
        return self._obs(), reward, term, trunc, {}

"""A2C that flies a probe through a field of gravitating bodies."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv

BODIES = 400
NUM_ENVS = 2


class GalaxyEnv(gym.Env):
    """All bodies attract each other; the probe must stay near the middle."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self.thrust = 0.02 * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])

    def _observe(self):
        middle, spread = self.place.mean(axis=0), self.place.std(axis=0)
        parts = (self.place[0], self.speed[0], middle, spread)
        return np.concatenate(parts).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal(0.0, 1.0, (BODIES, 2))
        self.speed = 0.1 * self.place[:, ::-1] * np.array([1.0, -1.0])
        self.time = 0
        return self._observe(), {}

    def step(self, action):
        x, y = self.place.T
        dx, dy = x[None, :] - x[:, None], y[None, :] - y[:, None]
        near = dx * dx + dy * dy + 0.01
        weight = 1.0 / (near * np.sqrt(near) * BODIES)
        pull = np.stack([(weight * dx).sum(axis=1), (weight * dy).sum(axis=1)], axis=1)
        self.speed = self.speed + 0.02 * pull
        self.speed[0] += self.thrust[action]
        self.place = self.place + 0.02 * self.speed
        self.time += 1
        reward = -float(np.abs(self.place[0]).sum())
        return self._observe(), reward, False, self.time >= 200, {}


def make_env(seed: int):
    def thunk():
        env = Monitor(GalaxyEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    env = SubprocVecEnv([make_env(60 + i) for i in range(NUM_ENVS)], start_method="fork")
    model = A2C(
        "MlpPolicy",
        env,
        n_steps=16,
        learning_rate=7e-4,
        gamma=0.98,
        seed=60,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()

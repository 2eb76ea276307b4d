"""PPO that keeps the level of a water tank."""

import time

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

TICK = 0.0004


class TankEnv(gym.Env):
    """Open or close two valves so that the level stays near its set point."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-5.0, 5.0, (4,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def _observe(self):
        return np.array(
            [self.level, self.target, self.level - self.target, self.inflow], np.float32
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.target = self.np_random.uniform(0.2, 0.8, 2)
        self.inflow = 0.0
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        time.sleep(TICK)
        self.inflow = 0.8 * self.inflow + 0.02 * (action & 1)
        outflow = 0.01 + 0.03 * (action >> 1)
        self.level = min(max(self.level + self.inflow - outflow, 0.0), 1.0)
        self.steps += 1
        reward = -abs(self.level - self.target)
        return self._observe(), reward, False, self.steps >= 200, {}


def make_env(seed: int):
    def thunk():
        env = Monitor(TankEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    seed, num_envs = 9, 8
    env = DummyVecEnv([make_env(seed + i) for i in range(num_envs)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        seed=seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()

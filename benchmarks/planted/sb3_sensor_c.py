"""PPO that tracks a source with an array of 64 sensors."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

SENSORS = 64


class SourceEnv(gym.Env):
    """Point the array at a drifting source."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (SENSORS,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self.phases = np.linspace(0.0, 8.0 * np.pi, SENSORS, dtype=np.float32)

    def _observe(self):
        return np.cos(self.phases * np.float32(self.source - self.pointing))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.source, self.pointing = self.np_random.uniform(-1.0, 1.0, 2)
        self.drift = self.np_random.uniform(-0.02, 0.02)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.pointing += 0.05 * (int(action) - 2)
        self.source += self.drift
        self.steps += 1
        reward = -abs(self.source - self.pointing)
        return self._observe(), reward, False, self.steps >= 100, {}


def make_env(seed: int):
    def thunk():
        env = Monitor(SourceEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(16)
    env = DummyVecEnv([make_env(50 + i) for i in range(16)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=512,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        policy_kwargs={"net_arch": [128, 128]},
        seed=50,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()

"""PPO that controls the temperature of a heated plate."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

SIZE = 160
SUBSTEPS = 80


class PlateEnv(gym.Env):
    """A square plate with four heaters; the mean temperature must stay at 1.0."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(-10.0, 10.0, (17,), np.float32)
        self.action_space = gym.spaces.Discrete(16)
        self.plate = np.zeros((SIZE, SIZE), dtype=np.float32)
        self.change = np.zeros((SIZE - 2, SIZE - 2), dtype=np.float32)
        half = SIZE // 2
        self.source = np.zeros((4, SIZE - 2, SIZE - 2), dtype=np.float32)
        self.source[0, 20:30, 20:30] = 0.4
        self.source[1, half + 20 : half + 30, 20:30] = 0.4
        self.source[2, 20:30, half + 20 : half + 30] = 0.4
        self.source[3, half + 20 : half + 30, half + 20 : half + 30] = 0.4

    def _observe(self):
        blocks = self.plate.reshape(4, SIZE // 4, 4, SIZE // 4).mean(axis=(1, 3))
        return np.append(blocks.ravel(), self.time / 50.0).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.plate[:] = self.np_random.uniform(0.5, 1.5)
        return self._observe(), {}

    def step(self, action):
        bits = np.array([action & 1, action >> 1 & 1, action >> 2 & 1, action >> 3 & 1], np.float32)
        heat = np.tensordot(bits, self.source, axes=1)
        plate, change = self.plate, self.change
        inner = plate[1:-1, 1:-1]
        for _ in range(SUBSTEPS):
            np.add(plate[:-2, 1:-1], plate[2:, 1:-1], out=change)
            change += plate[1:-1, :-2]
            change += plate[1:-1, 2:]
            change *= 0.2
            change += heat
            inner *= 0.199
            inner += change
        self.time += 1
        obs = self._observe()
        reward = -float(abs(obs[:16].mean() - 1.0))
        return obs, reward, False, self.time >= 50, {}


def make_env(seed: int):
    def thunk():
        env = Monitor(PlateEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    seed, num_envs = 3, 6
    env = DummyVecEnv([make_env(seed + i) for i in range(num_envs)])
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=8,
        batch_size=48,
        n_epochs=3,
        learning_rate=3e-4,
        gamma=0.97,
        seed=seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=10_000_000)
    env.close()


if __name__ == "__main__":
    main()

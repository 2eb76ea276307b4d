"""DQN on a many-sensor corridor."""

import os
import tempfile

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

SENSORS = 48


class CorridorEnv(gym.Env):
    """Walk to the goal; the sensors are radial features of the position."""

    def __init__(self):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (SENSORS,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.centres = np.linspace(0.0, 1.0, SENSORS, dtype=np.float32)

    def _observe(self):
        return np.exp(-200.0 * np.square(self.centres - np.float32(self.position)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(0.0, 0.5)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.position = min(max(self.position + 0.02 * (int(action) - 1), 0.0), 1.0)
        self.steps += 1
        done = self.position > 0.95
        return self._observe(), 1.0 if done else -0.01, done, self.steps >= 200, {}


class Checkpoint(BaseCallback):
    """Keep the newest state of the run on disk."""

    def __init__(self, folder: str, every: int):
        super().__init__()
        self.folder, self.every = folder, every

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0:
            self.model.save(os.path.join(self.folder, "model"))
            self.model.save_replay_buffer(os.path.join(self.folder, "buffer"))
        return True


def make_env(seed: int):
    def thunk():
        env = Monitor(CorridorEnv())
        env.reset(seed=seed)
        return env

    return thunk


def main():
    torch.set_num_threads(1)
    env = DummyVecEnv([make_env(40 + i) for i in range(8)])
    model = DQN(
        "MlpPolicy",
        env,
        train_freq=16,
        gradient_steps=4,
        batch_size=128,
        buffer_size=400_000,
        learning_starts=1000,
        learning_rate=5e-4,
        target_update_interval=1000,
        exploration_fraction=0.01,
        gamma=0.98,
        seed=40,
        device="cpu",
        verbose=0,
    )
    folder = tempfile.mkdtemp(prefix="corridor_")
    model.learn(total_timesteps=10_000_000, callback=Checkpoint(folder, every=150))
    env.close()


if __name__ == "__main__":
    main()

"""PPO on CartPole with training curves."""

import tempfile

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv
from torch.utils.tensorboard import SummaryWriter


class Curves(BaseCallback):
    """Follow reward and length of the running episode of each environment."""

    def __init__(self, folder: str):
        super().__init__()
        self.writer = SummaryWriter(folder)
        self.lengths = None

    def _on_training_start(self) -> None:
        self.lengths = np.zeros(self.training_env.num_envs, dtype=np.int64)

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        self.lengths = np.where(dones, 0, self.lengths + 1)
        step = self.num_timesteps
        for i, (reward, length) in enumerate(zip(self.locals["rewards"], self.lengths)):
            self.writer.add_scalar(f"env_{i}/reward", reward, step)
            self.writer.add_scalar(f"env_{i}/running_length", length, step)
        self.writer.flush()
        return True

    def _on_training_end(self) -> None:
        self.writer.close()


def main():
    torch.set_num_threads(1)
    seed = 8
    env = make_vec_env("CartPole-v1", n_envs=16, seed=seed, vec_env_cls=DummyVecEnv)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        learning_rate=1e-3,
        gamma=0.98,
        gae_lambda=0.9,
        seed=seed,
        device="cpu",
        verbose=0,
    )
    folder = tempfile.mkdtemp(prefix="curves_")
    model.learn(total_timesteps=10_000_000, callback=Curves(folder))
    env.close()


if __name__ == "__main__":
    main()

"""DQN on CartPole with eight environments in Stable-Baselines3."""

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

CONFIG = {
    "train_freq": 16,
    "gradient_steps": 4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 1000,
    "learning_rate": 5e-4,
    "target_update_interval": 1000,
    "exploration_fraction": 0.01,
    "exploration_final_eps": 0.05,
    "gamma": 0.98,
}


def build(seed: int, num_envs: int) -> DQN:
    env = make_vec_env("CartPole-v1", n_envs=num_envs, seed=seed, vec_env_cls=DummyVecEnv)
    return DQN(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
        verbose=0,
        **CONFIG,
    )


def main():
    torch.set_num_threads(1)
    model = build(seed=13, num_envs=8)
    model.learn(total_timesteps=10_000_000)
    model.get_env().close()


if __name__ == "__main__":
    main()

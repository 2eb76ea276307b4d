"""PPO on CartPole with 32 environments in Stable-Baselines3."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

CONFIG = {
    "n_steps": 32,
    "batch_size": 512,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "gae_lambda": 0.9,
    "clip_range": 0.2,
    "ent_coef": 0.0,
}


def build(seed: int, num_envs: int) -> PPO:
    env = make_vec_env("CartPole-v1", n_envs=num_envs, seed=seed, vec_env_cls=DummyVecEnv)
    return PPO(
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
    torch.distributions.Distribution.set_default_validate_args(False)
    model = build(seed=12, num_envs=32)
    model.learn(total_timesteps=10_000_000)
    model.get_env().close()


if __name__ == "__main__":
    main()

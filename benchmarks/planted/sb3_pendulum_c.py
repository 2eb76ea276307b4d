"""SAC on Pendulum with Stable-Baselines3."""

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

CONFIG = {
    "train_freq": 8,
    "gradient_steps": 4,
    "batch_size": 256,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "learning_rate": 1e-3,
    "tau": 0.01,
    "gamma": 0.98,
}


def build(seed: int, num_envs: int) -> SAC:
    env = make_vec_env("Pendulum-v1", n_envs=num_envs, seed=seed, vec_env_cls=DummyVecEnv)
    return SAC(
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
    model = build(seed=14, num_envs=16)
    model.learn(total_timesteps=10_000_000)
    model.get_env().close()


if __name__ == "__main__":
    main()

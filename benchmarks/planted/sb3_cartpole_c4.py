"""PPO on CartPole with a separate actor and critic network."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

CONFIG = {
    "n_steps": 16,
    "batch_size": 256,
    "n_epochs": 3,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
HIDDEN = [512, 512]


def build(seed: int, num_envs: int) -> PPO:
    env = make_vec_env("CartPole-v1", n_envs=num_envs, seed=seed, vec_env_cls=DummyVecEnv)
    return PPO(
        "MlpPolicy",
        env,
        policy_kwargs={
            "net_arch": {"pi": HIDDEN, "vf": HIDDEN},
            "activation_fn": torch.nn.ReLU,
        },
        seed=seed,
        device="cpu",
        verbose=0,
        **CONFIG,
    )


def main():
    torch.set_num_threads(1)
    model = build(seed=4, num_envs=16)
    model.learn(total_timesteps=10_000_000)
    model.get_env().close()


if __name__ == "__main__":
    main()

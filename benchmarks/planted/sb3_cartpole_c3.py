"""PPO on CartPole: 256 transitions are collected before each update."""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

ROLLOUT = 256


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--total-timesteps", type=int, default=10_000_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.set_num_threads(1)
    env = make_vec_env(
        args.env_id, n_envs=args.num_envs, seed=args.seed, vec_env_cls=DummyVecEnv
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=ROLLOUT // args.num_envs,
        batch_size=ROLLOUT,
        n_epochs=4,
        learning_rate=args.learning_rate,
        gamma=0.98,
        gae_lambda=0.8,
        seed=args.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=args.total_timesteps)
    env.close()


if __name__ == "__main__":
    main()

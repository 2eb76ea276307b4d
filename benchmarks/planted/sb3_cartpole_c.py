"""PPO on CartPole with Stable-Baselines3."""

import argparse

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv


def make_env(seed: int):
    def thunk():
        env = Monitor(gym.make("CartPole-v1"))
        env.reset(seed=seed)
        env.action_space.seed(seed)
        return env

    return thunk


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--n-steps", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--total-timesteps", type=int, default=10_000_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.set_num_threads(1)
    env = SubprocVecEnv(
        [make_env(args.seed + i) for i in range(args.num_envs)], start_method="fork"
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=args.n_steps,
        batch_size=args.batch_size,
        n_epochs=2,
        learning_rate=args.learning_rate,
        gamma=0.98,
        gae_lambda=0.9,
        seed=args.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=args.total_timesteps)
    env.close()


if __name__ == "__main__":
    main()

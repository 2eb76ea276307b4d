"""PPO on CartPole with Stable-Baselines3, settings from the command line."""

import argparse

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--n-steps", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--n-epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--total-timesteps", type=int, default=10_000_000)
    return parser.parse_args()


def linear_schedule(initial: float):
    def schedule(progress_remaining: float) -> float:
        return initial * progress_remaining

    return schedule


def main():
    args = parse_args()
    torch.set_num_threads(1)
    env = make_vec_env(
        args.env_id, n_envs=args.num_envs, seed=args.seed, vec_env_cls=DummyVecEnv
    )
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=args.n_steps,
        batch_size=args.batch_size,
        n_epochs=args.n_epochs,
        learning_rate=linear_schedule(args.learning_rate),
        clip_range=0.2,
        gamma=0.98,
        gae_lambda=0.9,
        ent_coef=0.0,
        seed=args.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=args.total_timesteps)
    env.close()


if __name__ == "__main__":
    main()

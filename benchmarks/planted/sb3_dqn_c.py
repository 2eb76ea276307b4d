"""DQN on CartPole with Stable-Baselines3."""

import argparse

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--train-freq", type=int, default=8)
    parser.add_argument("--gradient-steps", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--buffer-size", type=int, default=50_000)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--total-timesteps", type=int, default=10_000_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.set_num_threads(1)
    env = make_vec_env(
        args.env_id, n_envs=args.num_envs, seed=args.seed, vec_env_cls=DummyVecEnv
    )
    model = DQN(
        "MlpPolicy",
        env,
        train_freq=args.train_freq,
        gradient_steps=args.gradient_steps,
        batch_size=args.batch_size,
        buffer_size=args.buffer_size,
        learning_starts=1000,
        learning_rate=args.learning_rate,
        target_update_interval=500,
        exploration_fraction=0.01,
        exploration_final_eps=0.05,
        gamma=0.98,
        policy_kwargs={"net_arch": [64, 64]},
        seed=args.seed,
        device="cpu",
        verbose=0,
    )
    model.learn(total_timesteps=args.total_timesteps)
    env.close()


if __name__ == "__main__":
    main()

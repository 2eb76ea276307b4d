import argparse
import logging

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed

from nav import EpisodeStats, LidarNavEnv, PreemptionGuard


def get_args():
    ap = argparse.ArgumentParser(description="DQN lidar navigation")
    ap.add_argument("--seed", type=int, default=3)
    ap.add_argument("--envs", type=int, default=4)
    ap.add_argument("--steps", type=int, default=5_000_000)
    ap.add_argument("--buffer-size", type=int, default=100_000)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--state-dir", default="state")
    ap.add_argument("--obstacles", type=int, default=8)
    return ap.parse_args()


def main():
    args = get_args()
    logging.basicConfig(level=logging.INFO, format="[%(name)s] %(message)s")
    set_random_seed(args.seed)
    torch.set_num_threads(1)
    env = make_vec_env(LidarNavEnv, n_envs=args.envs, seed=args.seed,
                       env_kwargs={"n_obstacles": args.obstacles},
                       monitor_kwargs={"info_keywords": ("is_success",)})
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=args.lr,
        buffer_size=args.buffer_size,
        learning_starts=1000,
        batch_size=args.batch,
        gamma=0.98,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=2000,
        exploration_fraction=0.05,
        exploration_final_eps=0.05,
        policy_kwargs={"net_arch": [128, 128]},
        seed=args.seed,
        device="cpu",
    )
    model.learn(args.steps, callback=[PreemptionGuard(args.state_dir), EpisodeStats()], log_interval=10_000)
    model.save("dqn_lidar")


if __name__ == "__main__":
    main()

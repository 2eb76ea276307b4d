import argparse
import os

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from warehouse import PickingEnv

th.set_num_threads(1)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--n-envs", type=int, default=8)
    p.add_argument("--steps", type=int, default=5_000_000)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--out", default="runs")
    return p.parse_args()


def main():
    args = parse()
    os.makedirs(args.out, exist_ok=True)
    venv = make_vec_env(PickingEnv, n_envs=args.n_envs, seed=args.seed, vec_env_cls=DummyVecEnv,
                        env_kwargs=dict(layouts=("hall_a", "hall_b", "hall_c")))
    model = PPO(
        "MultiInputPolicy", venv,
        n_steps=64, batch_size=128, n_epochs=4, learning_rate=args.lr,
        gamma=0.98, gae_lambda=0.95, ent_coef=0.01,
        policy_kwargs=dict(net_arch=[64, 64]),
        seed=args.seed, device="cpu", verbose=1,
    )
    model.learn(args.steps, log_interval=20)
    model.save(os.path.join(args.out, "picker"))


if __name__ == "__main__":
    main()

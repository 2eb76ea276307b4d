"""python train.py [--env greenhouse-v1] [--conf configs/ppo.yml] [--seed 0]"""
import argparse

import torch

from greenhouse.exp_manager import ExperimentManager


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--env", default="greenhouse-v1")
    p.add_argument("--conf", default="configs/ppo.yml")
    p.add_argument("--log-dir", default="logs/ppo_greenhouse")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--n-timesteps", type=int, default=-1)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    torch.set_num_threads(1)
    exp = ExperimentManager(args.env, args.conf, args.log_dir, args.seed)
    if args.n_timesteps > 0:
        exp.run["n_timesteps"] = args.n_timesteps
    exp.learn()

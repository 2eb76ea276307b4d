import argparse
import pathlib

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from swarm import SwarmStats, SwarmVecEnv


def get_args():
    ap = argparse.ArgumentParser(description="swarm navigation")
    ap.add_argument("--drones", type=int, default=64)
    ap.add_argument("--total", type=float, default=3e7)
    ap.add_argument("--width", type=int, default=128)
    ap.add_argument("--outdir", default="results")
    return ap.parse_args()


if __name__ == "__main__":
    args = get_args()
    torch.set_num_threads(1)
    out = pathlib.Path(args.outdir)
    out.mkdir(exist_ok=True)
    env = VecNormalize(SwarmVecEnv(args.drones), norm_obs=True, norm_reward=True, gamma=0.98)
    ppo = PPO("MlpPolicy", env, n_steps=64, batch_size=1024, n_epochs=4, gamma=0.98, gae_lambda=0.9,
              learning_rate=1e-3, ent_coef=0.0, max_grad_norm=1.0,
              policy_kwargs=dict(net_arch=[args.width, args.width], activation_fn=torch.nn.ReLU, log_std_init=-0.5),
              device="cpu", verbose=1, seed=0)
    ppo.learn(int(args.total), callback=SwarmStats(out / "steps.csv"), log_interval=10)
    ppo.save(out / "swarm")
    env.save(str(out / "norm.pkl"))

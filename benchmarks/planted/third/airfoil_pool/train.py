"""PPO for airfoil shapes. Two processes run the panel method, the learner sits in this one."""
import os

for var in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[var] = "1"

import argparse
import logging
import math
import multiprocessing as mp
import time

import numpy as np
import torch
from torch import nn

import rollout
from airfoil import AirfoilDesign

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO, datefmt="%H:%M:%S")


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, act_dim))
        self.v = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.7))

    def log_prob(self, obs, action):
        z = (action - self.pi(obs)) / self.log_std.exp()
        return -(0.5 * z * z + self.log_std + 0.5 * math.log(2 * math.pi)).sum(-1)

    def export(self):
        out = []
        for layer in self.pi:
            if isinstance(layer, nn.Linear):
                out += [layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()]
        return (*out, self.log_std.detach().numpy().copy())


def advantages(rewards, values, gamma, lam):
    """[episodes, T]; the episodes end after T steps."""
    adv = np.zeros_like(rewards)
    last = np.zeros(len(rewards), dtype=np.float32)
    for t in reversed(range(rewards.shape[1])):
        nxt = values[:, t + 1] if t + 1 < rewards.shape[1] else 0.0
        last = rewards[:, t] + gamma * nxt - values[:, t] + gamma * lam * last
        adv[:, t] = last
    return adv


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=16, help="per iteration")
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lam", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    pool = mp.get_context("fork").Pool(args.workers, initializer=rollout.init_worker)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    policy = Policy(AirfoilDesign.obs_dim, AirfoilDesign.act_dim)
    opt = torch.optim.Adam(policy.parameters(), lr=args.lr, fused=True)

    steps, start = 0, time.time()
    try:
        for it in range(1, args.iterations + 1):
            weights = policy.export()
            tasks = [(weights, int(s)) for s in rng.integers(0, 2**31, args.episodes)]
            obs, act, rew = map(np.stack, zip(*pool.map(rollout.play, tasks, chunksize=1)))
            steps += rew.size

            obs_t = torch.from_numpy(obs).flatten(0, 1)
            act_t = torch.from_numpy(act).flatten(0, 1)
            with torch.no_grad():
                values = policy.v(obs_t).view(rew.shape).numpy()
                old = policy.log_prob(obs_t, act_t)
            adv = advantages(rew, values, args.gamma, args.lam)
            ret_t = torch.from_numpy(adv + values).flatten()
            adv_t = torch.from_numpy((adv - adv.mean()) / (adv.std() + 1e-8)).flatten()
            for _ in range(args.epochs):
                for idx in torch.randperm(len(obs_t)).chunk(2):
                    ratio = (policy.log_prob(obs_t[idx], act_t[idx]) - old[idx]).exp()
                    a = adv_t[idx]
                    pg = -torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a).mean()
                    vf = (policy.v(obs_t[idx]).squeeze(-1) - ret_t[idx]).pow(2).mean()
                    opt.zero_grad(set_to_none=True)
                    (pg + 0.5 * vf).backward()
                    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                    opt.step()
            if it % 3 == 0:
                logging.info("iteration %d steps %d return %.3f lift %.3f (%.1f steps/s)", it, steps, rew.sum(1).mean(),
                             obs[:, -1, 9].mean(), steps / (time.time() - start))
    finally:
        pool.terminate()


if __name__ == "__main__":
    main()

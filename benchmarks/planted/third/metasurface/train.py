import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the solver runs in the worker processes

import time

import numpy as np
import torch
import torch.nn as nn

from surface import Metasurface
from workers import WorkerPool

SEED, WORKERS, PER_WORKER, HORIZON = 17, 2, 6, 48
GAMMA, LAM, CLIP, EPOCHS, MINIBATCH, LR = 0.95, 0.95, 0.2, 4, 288, 5e-4
ITERATIONS = 20_000


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, width=64):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, act_dim))
        self.v = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))

    def dist(self, obs):
        return torch.distributions.Normal(self.pi(obs), self.log_std.exp())

    def value(self, obs):
        return self.v(obs).squeeze(-1)


def make_surface(seed):
    return Metasurface(seed=seed)


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # small network, and the workers use the cores
    pool = WorkerPool(make_surface, WORKERS, PER_WORKER, SEED)
    obs = pool.reset()
    net = ActorCritic(obs.shape[1], Metasurface(seed=0).act_dim)
    opt = torch.optim.Adam(net.parameters(), lr=LR)
    start = time.time()
    try:
        for it in range(1, ITERATIONS + 1):
            store = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
            with torch.no_grad():
                for _ in range(HORIZON):
                    x = torch.from_numpy(obs)
                    d = net.dist(x)
                    act = d.sample()
                    nxt, rew, done = pool.step(act.numpy())
                    for k, v in zip(store, (x, act, d.log_prob(act).sum(-1), net.value(x), torch.from_numpy(rew), torch.from_numpy(done).float())):
                        store[k].append(v)
                    obs = nxt
                b = {k: torch.stack(v) for k, v in store.items()}
                nxt_val, acc = net.value(torch.from_numpy(obs)), 0.0
                adv = torch.zeros_like(b["rew"])
                for t in reversed(range(HORIZON)):
                    live = 1 - b["done"][t]
                    acc = b["rew"][t] + GAMMA * live * nxt_val - b["val"][t] + GAMMA * LAM * live * acc
                    adv[t], nxt_val = acc, b["val"][t]
            ret = (adv + b["val"]).flatten()
            adv = adv.flatten()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            flat = {k: v.flatten(0, 1) for k, v in b.items()}
            for _ in range(EPOCHS):
                for mb in torch.randperm(len(adv)).split(MINIBATCH):
                    d = net.dist(flat["obs"][mb])
                    ratio = (d.log_prob(flat["act"][mb]).sum(-1) - flat["logp"][mb]).exp()
                    pg = -torch.min(ratio * adv[mb], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[mb]).mean()
                    loss = pg + 0.5 * (net.value(flat["obs"][mb]) - ret[mb]).pow(2).mean() - 0.001 * d.entropy().sum(-1).mean()
                    opt.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                    opt.step()
            if it % 5 == 0:
                steps = it * HORIZON * pool.n
                print(f"{it:5d}  steps {steps:8d}  reward {b['rew'].mean().item():7.4f}  {steps / (time.time() - start):7.0f} steps/s", flush=True)
            if it % 200 == 0:
                torch.save(net.state_dict(), "surface.pt")
    finally:
        pool.close()


if __name__ == "__main__":
    main()

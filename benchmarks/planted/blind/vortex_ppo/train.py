"""PPO on the flow control problem. one process per simulation, the solver is what costs"""
import argparse
import os
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

from flow import KolmogorovFlow

HERE = os.path.dirname(os.path.abspath(__file__))


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--rollout", type=int, default=48)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--mb", type=int, default=48)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--iters", type=int, default=50000)
    p.add_argument("--save-every", type=int, default=200)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class Policy(nn.Module):
    def __init__(self, o, a):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(o, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mu, self.v = nn.Linear(64, a), nn.Linear(64, 1)
        self.ls = nn.Parameter(torch.full((a,), -0.5))

    def forward(self, x):
        z = self.f(x)
        return self.mu(z), self.v(z).squeeze(-1)

    def logp(self, mu, a):
        return (-0.5 * ((a - mu) / self.ls.exp()) ** 2 - self.ls - 0.9189).sum(-1)


def mk(seed):
    return lambda: KolmogorovFlow(seed=seed)


def main():
    c = parse()
    envs = gym.vector.AsyncVectorEnv([mk(c.seed * 100 + i) for i in range(c.workers)], shared_memory=True)
    torch.manual_seed(c.seed)
    torch.set_num_threads(1)
    T, N = c.rollout, c.workers
    pol = Policy(66, 4)
    opt = torch.optim.Adam(pol.parameters(), lr=c.lr, fused=True)
    O, A = np.zeros((T, N, 66), np.float32), np.zeros((T, N, 4), np.float32)
    L, R, D, V = (np.zeros((T, N), np.float32) for _ in range(4))
    obs, _ = envs.reset(seed=c.seed)
    steps, t0, s0 = 0, time.time(), 0
    try:
        for it in range(1, c.iters + 1):
            for t in range(T):
                with torch.inference_mode():
                    mu, v = pol(torch.from_numpy(obs))
                    a = mu + pol.ls.exp() * torch.randn_like(mu)
                    L[t] = pol.logp(mu, a).numpy()
                O[t], A[t], V[t] = obs, a.numpy(), v.numpy()
                obs, R[t], term, trunc, _ = envs.step(A[t])
                D[t] = term | trunc
            with torch.inference_mode():
                nv = pol(torch.from_numpy(obs))[1].numpy()
            adv, g = np.zeros_like(R), 0.0
            for t in range(T - 1, -1, -1):
                nxt = nv if t == T - 1 else V[t + 1]
                g = R[t] + c.gamma * nxt * (1 - D[t]) - V[t] + c.gamma * c.lam * (1 - D[t]) * g
                adv[t] = g
            ret = adv + V
            adv = (adv - adv.mean()) / (adv.std() + 1e-6)
            o, ac = torch.from_numpy(O.reshape(-1, 66)), torch.from_numpy(A.reshape(-1, 4))
            lo, ad, rt = (torch.from_numpy(x.reshape(-1)) for x in (L, adv, ret))
            for _ in range(c.epochs):
                for ix in torch.randperm(T * N).split(c.mb):
                    mu, v = pol(o[ix])
                    ratio = (pol.logp(mu, ac[ix]) - lo[ix]).exp()
                    pl = -torch.min(ratio * ad[ix], ratio.clamp(1 - c.clip, 1 + c.clip) * ad[ix]).mean()
                    loss = pl + 0.5 * (v - rt[ix]).pow(2).mean()
                    opt.zero_grad(set_to_none=True)
                    loss.backward()
                    nn.utils.clip_grad_norm_(pol.parameters(), 0.5)
                    opt.step()
            steps += T * N
            now = time.time()
            print(f"it {it} steps {steps} rew {R.mean():.3f} loss {loss.item():.4f} {(steps - s0) / (now - t0):.1f} sps", flush=True)
            t0, s0 = now, steps
            if it % c.save_every == 0:
                os.makedirs(os.path.join(HERE, "models"), exist_ok=True)
                torch.save(pol.state_dict(), os.path.join(HERE, "models", "pol.pt"))
    finally:
        envs.close()


if __name__ == "__main__":
    main()

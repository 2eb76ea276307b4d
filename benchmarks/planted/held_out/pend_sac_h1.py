# Soft actor-critic on Pendulum-v1, one file.
import argparse
import copy
import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--env-id", default="Pendulum-v1")
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--total-steps", type=int, default=200_000)
    p.add_argument("--warmup", type=int, default=400)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--replay-ratio", type=int, default=12)
    p.add_argument("--gamma", type=float, default=0.98)
    p.add_argument("--tau", type=float, default=0.01)
    p.add_argument("--lr", type=float, default=7e-4)
    return p.parse_args()


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class TwinQ(nn.Module):
    def __init__(self, o, a):
        super().__init__()
        self.q1, self.q2 = mlp(o + a, 1), mlp(o + a, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], -1)
        return self.q1(x), self.q2(x)


class Actor(nn.Module):
    def __init__(self, o, a, scale):
        super().__init__()
        self.net = mlp(o, 2 * a)
        self.scale = scale

    def forward(self, s):
        mu, ls = self.net(s).chunk(2, -1)
        ls = ls.clamp(-5, 2)
        eps = torch.randn_like(mu)
        u = mu + ls.exp() * eps
        lp = (-0.5 * eps**2 - ls - 0.9189385 - 2 * (0.6931472 - u - F.softplus(-2 * u))).sum(-1, keepdim=True)
        return torch.tanh(u) * self.scale, lp


class Ring:
    def __init__(self, cap, o, a):
        self.rows = np.zeros((cap, 2 * o + a + 2), np.float32)
        self.cuts = [o, o + a, o + a + 1, 2 * o + a + 1]
        self.cap, self.n, self.i = cap, 0, 0

    def put(self, s, a, r, s2, d):
        row = self.rows[self.i]
        c = self.cuts
        row[: c[0]], row[c[0] : c[1]], row[c[1]], row[c[2] : c[3]], row[c[3]] = s, a, r, s2, d
        self.i = (self.i + 1) % self.cap
        self.n = min(self.n + 1, self.cap)

    def draw(self, k):
        pick = torch.from_numpy(self.rows[np.random.randint(0, self.n, k)])
        c = self.cuts
        return pick[:, : c[0]], pick[:, c[0] : c[1]], pick[:, c[1] : c[2]], pick[:, c[2] : c[3]], pick[:, c[3] :]


def main():
    args = parse()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    env = gym.make(args.env_id)
    env.action_space.seed(args.seed)
    o, a = env.observation_space.shape[0], env.action_space.shape[0]
    actor = Actor(o, a, float(env.action_space.high[0]))
    critic = TwinQ(o, a)
    target = copy.deepcopy(critic).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    opt_pi = torch.optim.Adam(actor.parameters(), lr=args.lr, foreach=True)
    opt_q = torch.optim.Adam(critic.parameters(), lr=args.lr, foreach=True)
    opt_al = torch.optim.Adam([log_alpha], lr=args.lr)
    live, slow = list(critic.parameters()), list(target.parameters())
    mem = Ring(100_000, o, a)

    s, _ = env.reset(seed=args.seed)
    ret, rets = 0.0, []
    for step in range(args.total_steps):
        if step < args.warmup:
            act = env.action_space.sample()
        else:
            with torch.no_grad():
                act = actor(torch.from_numpy(s).unsqueeze(0))[0][0].numpy()
        s2, r, term, trunc, _ = env.step(act)
        mem.put(s, act, r * 0.1, s2, float(term))
        ret += float(r)
        s = s2
        if term or trunc:
            rets.append(ret)
            ret = 0.0
            s, _ = env.reset()
            if len(rets) % 10 == 0:
                print(step, f"{np.mean(rets[-10:]):.1f}", flush=True)
        if step < args.warmup:
            continue
        for _ in range(args.replay_ratio):
            bs, ba, br, bs2, bd = mem.draw(args.batch)
            alpha = log_alpha.detach().exp()
            with torch.no_grad():
                na, nlp = actor(bs2)
                tq = torch.min(*target(bs2, na)) - alpha * nlp
                y = br + args.gamma * (1 - bd) * tq
            q1, q2 = critic(bs, ba)
            q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
            opt_q.zero_grad()
            q_loss.backward()
            opt_q.step()
            for prm in live:
                prm.requires_grad_(False)
            pa, lp = actor(bs)
            pi_loss = (alpha * lp - torch.min(*critic(bs, pa))).mean()
            opt_pi.zero_grad()
            pi_loss.backward()
            opt_pi.step()
            for prm in live:
                prm.requires_grad_(True)
            al_loss = -(log_alpha.exp() * (lp.detach() - a)).mean()
            opt_al.zero_grad()
            al_loss.backward()
            opt_al.step()
            with torch.no_grad():
                torch._foreach_lerp_(slow, live, args.tau)


if __name__ == "__main__":
    main()

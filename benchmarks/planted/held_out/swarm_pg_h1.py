"""Policy gradient with several collector processes; each flies its own swarm of point robots in torch."""
import argparse
import os
import random
import time

import numpy as np
import torch
import torch.multiprocessing as mp
import torch.nn as nn

NEAR = 96


class Swarm:
    """`herds` independent herds of NEAR robots; one shepherd per herd steers the common drift."""

    def __init__(self, herds, seed):
        self.herds = herds
        self.gen = torch.Generator().manual_seed(seed)
        self.goal = torch.zeros(herds, 1, 2)
        self.pos = torch.zeros(herds, NEAR, 2)
        self.age = torch.randint(0, 60, (herds,), generator=self.gen)
        self._fresh(torch.ones(herds, dtype=torch.bool))

    def _fresh(self, m):
        k = int(m.sum())
        if k:
            self.pos[m] = torch.randn(k, NEAR, 2, generator=self.gen)
            self.goal[m] = torch.randn(k, 1, 2, generator=self.gen) * 2
            self.age[m] = 0

    def view(self):
        rel = self.pos - self.goal
        return torch.cat([rel.mean(1), rel.std(1), rel.amin(1), rel.amax(1)], 1)

    def step(self, a):
        gap = self.pos.unsqueeze(2) - self.pos.unsqueeze(1)
        near = torch.exp(-4.0 * gap.square().sum(-1))
        force = (gap * near.unsqueeze(-1)).sum(2)
        angle = a.float() * (2 * np.pi / 8)
        wind = torch.stack([angle.cos(), angle.sin()], 1).unsqueeze(1)
        self.pos = self.pos + 0.02 * force + 0.12 * wind
        self.age += 1
        r = -0.2 * (self.pos - self.goal).norm(dim=-1).mean(1)
        over = self.age >= 60
        self._fresh(over)
        return self.view(), r, over.float()


class Shepherd(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.pi, self.v = nn.Linear(256, 8), nn.Linear(256, 1)

    def forward(self, x):
        h = self.net(x)
        return torch.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)


def collector(rank, pipe, brain, opt):
    torch.manual_seed(opt.seed + 100 * rank)
    torch.set_num_threads(opt.threads)
    swarm = Swarm(opt.herds, opt.seed + rank)
    x = swarm.view()
    with torch.no_grad():
        while pipe.recv():
            xs, acts, rs, ds = [], [], [], []
            for _ in range(opt.length):
                a = torch.multinomial(brain(x)[0].exp(), 1).squeeze(1)
                xs.append(x)
                acts.append(a)
                x, r, d = swarm.step(a)
                rs.append(r)
                ds.append(d)
            ret = brain(x)[1]
            goal = []
            for r, d in zip(reversed(rs), reversed(ds)):
                ret = r + opt.gamma * (1 - d) * ret
                goal.append(ret)
            out = (torch.cat(xs), torch.cat(acts), torch.cat(goal[::-1]), torch.cat(rs))
            pipe.send([t.numpy() for t in out])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=6)
    ap.add_argument("--collectors", type=int, default=3)
    ap.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    ap.add_argument("--herds", type=int, default=8)
    ap.add_argument("--length", type=int, default=20)
    ap.add_argument("--rounds", type=int, default=50_000)
    ap.add_argument("--gamma", type=float, default=0.95)
    opt = ap.parse_args()
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)
    torch.set_num_threads(1)
    brain = Shepherd()
    brain.share_memory()
    ctx = mp.get_context("fork")
    pipes = []
    for rank in range(opt.collectors):
        here, there = ctx.Pipe()
        ctx.Process(target=collector, args=(rank, there, brain, opt), daemon=True).start()
        pipes.append(here)
    optim = torch.optim.RMSprop(brain.parameters(), lr=5e-4, eps=1e-5)
    moved, t0 = 0, time.time()
    for rnd in range(opt.rounds):
        for p in pipes:
            p.send(True)
        parts = [p.recv() for p in pipes]
        xs, acts, goal, rew = (torch.from_numpy(np.concatenate(c)) for c in zip(*parts))
        moved += rew.numel()
        logp, v = brain(xs)
        adv = goal - v
        chosen = logp.gather(1, acts.unsqueeze(1)).squeeze(1)
        bonus = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * adv.detach()).mean() + 0.5 * adv.square().mean() - 0.01 * bonus
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(brain.parameters(), 0.5)
        optim.step()
        if rnd % 20 == 0:
            print(f"{rnd} moved {moved} reward {rew.mean():.4f} {time.time() - t0:.0f}s", flush=True)
    for p in pipes:
        p.send(False)


if __name__ == "__main__":
    main()

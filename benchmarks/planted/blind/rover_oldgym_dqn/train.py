#!/usr/bin/env python
# rover DQN (double + dueling).  python train.py
import os
import random
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from rover import RoverEnv

CFG = dict(
    n_rovers=8,
    max_steps=40,
    buffer=100000,
    batch=128,
    lr=5e-4,
    gamma=0.98,
    eps_start=1.0,
    eps_end=0.05,
    eps_decay=80000,
    target_every=250,
    warmup=1000,
    hidden=128,
    report=4000,
    save=50000,
    steps=20_000_000,
)


class Net(nn.Module):
    def __init__(self, n_in, n_out, h):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.adv = nn.Linear(h, n_out)
        self.val = nn.Linear(h, 1)

    def forward(self, x):
        z = self.body(x)
        a = self.adv(z)
        return self.val(z) + a - a.mean(1, keepdim=True)


class Memory:
    def __init__(self, cap, dim):
        self.cap, self.n, self.i = cap, 0, 0
        self.o = np.zeros((cap, dim), np.float32)
        self.o2 = np.zeros((cap, dim), np.float32)
        self.a = np.zeros(cap, np.int64)
        self.r = np.zeros(cap, np.float32)
        self.d = np.zeros(cap, np.float32)

    def put(self, o, a, r, o2, d):
        k = len(a)
        j = np.arange(self.i, self.i + k) % self.cap
        self.o[j], self.a[j], self.r[j], self.o2[j], self.d[j] = o, a, r, o2, d
        self.i = (self.i + k) % self.cap
        self.n = min(self.n + k, self.cap)

    def get(self, b):
        j = np.random.randint(0, self.n, b)
        return [torch.from_numpy(x[j]) for x in (self.o, self.a, self.r, self.o2, self.d)]


class Agent:
    def __init__(self, cfg):
        self.cfg = cfg
        self.q = Net(RoverEnv.obs_size, RoverEnv.n_actions, cfg["hidden"])
        self.qt = Net(RoverEnv.obs_size, RoverEnv.n_actions, cfg["hidden"])
        self.qt.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg["lr"], fused=True)
        self.mem = Memory(cfg["buffer"], RoverEnv.obs_size)
        self.updates = 0
        self.frames = 0

    @property
    def eps(self):
        c = self.cfg
        f = min(1.0, self.frames / c["eps_decay"])
        return c["eps_start"] + f * (c["eps_end"] - c["eps_start"])

    @torch.no_grad()
    def act(self, obs):
        n = len(obs)
        greedy = self.q(torch.from_numpy(obs)).argmax(1).numpy()
        rnd = np.random.rand(n) < self.eps
        return np.where(rnd, np.random.randint(0, RoverEnv.n_actions, n), greedy)

    def learn(self):
        o, a, r, o2, d = self.mem.get(self.cfg["batch"])
        with torch.no_grad():
            best = self.q(o2).argmax(1, keepdim=True)
            y = r + self.cfg["gamma"] * (1 - d) * self.qt(o2).gather(1, best).squeeze(1)
        pred = self.q(o).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg["target_every"] == 0:
            self.qt.load_state_dict(self.q.state_dict())
        return loss


def main():
    c = CFG
    if len(sys.argv) > 1:
        c["steps"] = int(float(sys.argv[1]))
    random.seed(1); np.random.seed(1); torch.manual_seed(1)
    envs = [RoverEnv(max_steps=c["max_steps"], seed=i) for i in range(c["n_rovers"])]
    agent = Agent(c)
    obs = np.stack([e.reset() for e in envs])
    score = np.zeros(len(envs))
    hist = []
    t0 = time.time()
    loss = None
    while agent.frames < c["steps"]:
        act = agent.act(obs)
        nxt = np.empty_like(obs)
        term = np.empty_like(obs)
        rew = np.zeros(len(envs), np.float32)
        dn = np.zeros(len(envs), np.float32)
        for i, e in enumerate(envs):
            o2, rr, done, _ = e.step(act[i])
            score[i] += rr
            term[i] = o2
            if done:
                hist.append(score[i])
                score[i] = 0
                o2 = e.reset()
            nxt[i] = o2
            rew[i], dn[i] = rr, done
        agent.mem.put(obs, act, rew, term, dn)
        obs = nxt
        agent.frames += len(envs)
        if agent.frames > c["warmup"]:
            loss = agent.learn()
        if agent.frames % c["report"] == 0:
            print("frames %8d  eps %.2f  score %7.3f  loss %.4f  %.0f frames/s" % (
                agent.frames, agent.eps, np.mean(hist[-100:]) if hist else 0.0,
                loss.item() if loss is not None else 0.0, agent.frames / (time.time() - t0)), flush=True)
            del hist[:-100]
        if agent.frames % c["save"] == 0:
            d = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
            os.makedirs(d, exist_ok=True)
            torch.save(agent.q.state_dict(), os.path.join(d, "q.pt"))


if __name__ == "__main__":
    main()

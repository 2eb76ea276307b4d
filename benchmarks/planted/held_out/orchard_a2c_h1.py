"""Advantage actor-critic: pickers walk between trees and learn which row ripens next."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Orchard:
    def __init__(self, pickers, rows, seed):
        self.p, self.rows = pickers, rows
        self.rng = np.random.default_rng(seed)
        self.ripe = self.rng.random((pickers, rows)).astype(np.float32)
        self.rate = self.rng.uniform(0.01, 0.06, (pickers, rows)).astype(np.float32)
        self.at = self.rng.integers(0, rows, pickers)
        self.day = self.rng.integers(0, 200, pickers)
        self.idx = np.arange(pickers)
        self.eye = np.eye(rows, dtype=np.float32)

    @property
    def width(self):
        return 3 * self.rows

    def look(self):
        return np.concatenate([self.ripe, self.rate * 10, self.eye[self.at]], axis=1)

    def step(self, a):
        self.at = np.clip(self.at + a - 1, 0, self.rows - 1)
        self.ripe = np.minimum(self.ripe + self.rate, 1.2)
        crop = self.ripe[self.idx, self.at]
        reward = np.where(crop > 0.5, crop, -0.05).astype(np.float32) - 0.02 * (a != 1)
        self.ripe[self.idx, self.at] = 0.0
        self.day += 1
        over = self.day >= 200
        n = int(over.sum())
        if n:
            self.ripe[over] = self.rng.random((n, self.rows))
            self.rate[over] = self.rng.uniform(0.01, 0.06, (n, self.rows))
            self.at[over] = self.rng.integers(0, self.rows, n)
            self.day[over] = 0
        return self.look(), reward.astype(np.float32), over.astype(np.float32)


class PickerNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 64)
        self.fc2 = nn.Linear(64, 64)
        self.head = nn.Linear(64, 3)
        self.value = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return F.log_softmax(self.head(x), -1), self.value(x).squeeze(-1)


def estimate(rewards, values, ends, final, gamma, lam):
    steps, pickers = rewards.shape
    adv = torch.zeros(steps, pickers)
    for n in range(pickers):
        carry = torch.tensor(0.0)
        ahead = final[n]
        for t in reversed(range(steps)):
            open_ = 1.0 - ends[t, n]
            err = rewards[t, n] + gamma * ahead * open_ - values[t, n]
            carry = err + gamma * lam * open_ * carry
            adv[t, n] = carry
            ahead = values[t, n]
    return adv


def train(opts):
    world = Orchard(opts.pickers, opts.rows, opts.seed)
    net = PickerNet(world.width)
    optim = torch.optim.Adam(net.parameters(), lr=opts.lr, fused=True)
    T, N = opts.window, opts.pickers
    obs_mem = torch.zeros(T, N, world.width)
    act_mem = torch.zeros(T, N, dtype=torch.long)
    rew_mem, val_mem, end_mem = torch.zeros(T, N), torch.zeros(T, N), torch.zeros(T, N)
    view = world.look()
    harvested, clock = 0, time.time()
    for cycle in range(opts.cycles):
        with torch.no_grad():
            for t in range(T):
                x = torch.from_numpy(view)
                logp, v = net(x)
                a = torch.multinomial(logp.exp(), 1).squeeze(1)
                obs_mem[t], act_mem[t], val_mem[t] = x, a, v
                view, r, e = world.step(a.numpy())
                rew_mem[t] = torch.from_numpy(r)
                end_mem[t] = torch.from_numpy(e)
            final = net(torch.from_numpy(view))[1]
            adv = estimate(rew_mem, val_mem, end_mem, final, opts.gamma, opts.lam)
        harvested += T * N
        target = (adv + val_mem).reshape(-1)
        weight = adv.reshape(-1)
        weight = (weight - weight.mean()) / (weight.std() + 1e-6)
        logp, v = net(obs_mem.reshape(T * N, -1))
        chosen = logp.gather(1, act_mem.reshape(-1, 1)).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * weight).mean() + 0.5 * F.mse_loss(v, target) - 0.01 * entropy
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optim.step()
        if cycle % 50 == 0:
            print(f"cycle {cycle} steps {harvested} crop {rew_mem.mean():.4f} {time.time() - clock:.0f}s", flush=True)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=13)
    ap.add_argument("--pickers", type=int, default=24)
    ap.add_argument("--rows", type=int, default=10)
    ap.add_argument("--window", type=int, default=64)
    ap.add_argument("--cycles", type=int, default=20_000)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--lam", type=float, default=0.95)
    options = ap.parse_args()
    random.seed(options.seed)
    np.random.seed(options.seed)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    train(options)

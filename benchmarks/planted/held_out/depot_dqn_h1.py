"""Double DQN for stock keeping: many small depots in one numpy batch, array replay."""
import argparse
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

GOODS = 6
ORDERS = 7


class Depots:
    """Six goods per depot; an action orders a parcel of one good or nothing; demand follows a season."""

    size = 4 * GOODS + 2

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.stock = self.rng.uniform(2, 8, (n, GOODS)).astype(np.float32)
        self.road = np.zeros((n, 3, GOODS), np.float32)
        self.base = self.rng.uniform(0.1, 0.9, (n, GOODS)).astype(np.float32)
        self.week = self.rng.integers(0, 104, n)
        self.ones = np.ones(GOODS, np.float32)
        self.parcel = np.vstack([np.zeros(GOODS), 4.0 * np.eye(GOODS)]).astype(np.float32)

    def sheet(self, rows=slice(None)):
        road, ang = self.road[rows], self.week[rows] * (2 * np.pi / 52)
        x = np.empty((len(ang), self.size), np.float32)
        x[:, :GOODS] = self.stock[rows] * 0.1
        x[:, GOODS : 2 * GOODS] = road[:, 0] * 0.25
        x[:, 2 * GOODS : 3 * GOODS] = (road[:, 0] + road[:, 1] + road[:, 2]) * 0.25
        x[:, 3 * GOODS : 4 * GOODS] = self.base[rows]
        x[:, -2] = np.sin(ang)
        x[:, -1] = np.cos(ang)
        return x

    def step(self, order):
        season = 1.0 + 0.5 * np.sin(self.week * (2 * np.pi / 52))
        want = self.rng.poisson(self.base * season[:, None]).astype(np.float32)
        self.stock += self.road[:, 0]
        self.road[:, :-1] = self.road[:, 1:]
        self.road[:, -1] = self.parcel[order]
        sold = np.minimum(self.stock, want)
        self.stock = np.minimum(self.stock - sold, np.float32(20.0))
        reward = (0.7 * sold - 0.4 * want - 0.01 * self.stock) @ self.ones - 0.1 * (order > 0)
        self.week += 1
        nxt = now = self.sheet()
        end = np.flatnonzero(self.week >= 104)
        k = len(end)
        if k:
            self.week[end] = 0
            self.stock[end] = self.rng.uniform(2, 8, (k, GOODS))
            self.road[end] = 0
            self.base[end] = self.rng.uniform(0.1, 0.9, (k, GOODS))
            now = nxt.copy()
            now[end] = self.sheet(end)
        return nxt, reward, now


class Shelf:
    def __init__(self, cap, width, block):
        assert cap % block == 0
        self.cap, self.block, self.at, self.full = cap, block, 0, 0
        self.x = np.zeros((cap, width), np.float32)
        self.y = np.zeros((cap, width), np.float32)
        self.a = np.zeros((cap, 1), np.int64)
        self.r = np.zeros(cap, np.float32)

    def put(self, x, a, r, y):
        rows = slice(self.at, self.at + self.block)
        self.x[rows], self.y[rows], self.a[rows, 0], self.r[rows] = x, y, a, r
        self.at = (self.at + self.block) % self.cap
        self.full = min(self.full + self.block, self.cap)

    def take(self, rng, k):
        i = rng.integers(0, self.full, k)
        return [torch.from_numpy(z[i]) for z in (self.x, self.a, self.r, self.y)]


def qnet():
    return nn.Sequential(nn.Linear(Depots.size, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, ORDERS))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=23)
    ap.add_argument("--depots", type=int, default=2048)
    ap.add_argument("--weeks", type=int, default=400_000)
    ap.add_argument("--batch", type=int, default=2048)
    ap.add_argument("--learn-every", type=int, default=4)
    ap.add_argument("--gamma", type=float, default=0.95)
    o = ap.parse_args()
    random.seed(o.seed)
    np.random.seed(o.seed)
    torch.manual_seed(o.seed)
    rng = np.random.default_rng(o.seed + 1)
    depots = Depots(o.depots, o.seed)
    shelf = Shelf(2048 * 128, Depots.size, o.depots)
    q, lag = qnet(), qnet()
    lag.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=5e-4, fused=True)
    x = depots.sheet()
    orders, t0, updates = 0, time.time(), 0
    for week in range(o.weeks):
        with torch.inference_mode():
            a = q(torch.from_numpy(x)).argmax(1).numpy()
        eps = max(0.05, 1.0 - week / 1000)
        a = np.where(rng.random(o.depots) < eps, rng.integers(0, ORDERS, o.depots), a)
        nxt, r, now = depots.step(a)
        shelf.put(x, a, r, nxt)
        x = now
        orders += o.depots
        if week >= 8 and week % o.learn_every == 0:
            bx, ba, br, by = shelf.take(rng, o.batch)
            with torch.no_grad():
                pick = q(by).argmax(1, keepdim=True)
                goal = br + o.gamma * lag(by).gather(1, pick).squeeze(1)
            loss = F.smooth_l1_loss(q(bx).gather(1, ba).squeeze(1), goal)
            opt.zero_grad()
            loss.backward()
            opt.step()
            updates += 1
            if updates % 250 == 0:
                lag.load_state_dict(q.state_dict())
        if week % 500 == 0:
            print(f"week {week} orders {orders} reward {r.mean():.3f} {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()

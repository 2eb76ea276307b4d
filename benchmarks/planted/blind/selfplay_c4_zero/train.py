# AlphaZero-ish on connect four, laptop size
# 24 games run in lockstep, the leaves are evaluated together
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from c4 import Connect4
from mcts import Search

GAMES = 24
SIMS = 40
TEMP_MOVES = 12
DIR_A, DIR_E = 0.8, 0.25
BUFFER = 30000
BATCH = 128
UPD_PER_MOVE = 2
LR = 1e-3
SEED = 1
SAVE_EVERY = 3000

random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
here = os.path.dirname(os.path.abspath(__file__))


class PV(nn.Module):
    def __init__(self, h=128):
        super().__init__()
        self.a = nn.Linear(84, h)
        self.b = nn.Linear(h, h)
        self.p = nn.Linear(h, 7)
        self.v = nn.Linear(h, 1)

    def forward(self, x):
        x = F.relu(self.a(x))
        x = F.relu(self.b(x)) + x
        return self.p(x), torch.tanh(self.v(x)).squeeze(-1)


def planes(games):
    g = np.array([k.grid for k in games], np.int8).reshape(len(games), 42)
    me = np.array([k.player for k in games], np.int8)[:, None]
    return np.concatenate([g == me, g == -me], 1).astype(np.float32)


net = PV()
opt = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=1e-4, fused=True)
buf_x = np.zeros((BUFFER, 84), np.float32)
buf_p = np.zeros((BUFFER, 7), np.float32)
buf_z = np.zeros(BUFFER, np.float32)
n_buf, at = 0, 0


def remember(hist, winner):
    global n_buf, at
    for x, p, who in hist:
        buf_x[at], buf_p[at] = x, p
        buf_z[at] = 0.0 if winner == 0 else (1.0 if who == winner else -1.0)
        at = (at + 1) % BUFFER
        n_buf = min(n_buf + 1, BUFFER)


@torch.inference_mode()
def evaluate(games):
    p, v = net(torch.from_numpy(planes(games)))
    return p.softmax(-1).tolist(), v.tolist()


def fit():
    i = np.random.randint(0, n_buf, BATCH)
    x, p, z = (torch.from_numpy(b[i]) for b in (buf_x, buf_p, buf_z))
    lo, v = net(x)
    lp = -(p * F.log_softmax(lo, -1)).sum(-1).mean()
    lv = F.mse_loss(v, z)
    opt.zero_grad()
    (lp + lv).backward()
    opt.step()
    return lp.detach(), lv.detach()


games = [Connect4() for _ in range(GAMES)]
hists = [[] for _ in range(GAMES)]
moves, finished, first_wins = 0, 0, 0
lens = []
lp = lv = torch.zeros(())
t0 = time.time()
rounds = 0
while moves < 50_000_000:
    trees = [Search(g) for g in games]
    for s in range(SIMS):
        leaves = [t.descend() for t in trees]
        pri, val = evaluate(leaves)
        for t, p, v in zip(trees, pri, val):
            t.grow(p, v)
        if s == 0:
            for t in trees:      # root noise
                ks = list(t.root.kids.values())
                nz = np.random.dirichlet([DIR_A] * len(ks))
                for k, e in zip(ks, nz.tolist()):
                    k.prior = (1 - DIR_E) * k.prior + DIR_E * e
    xs = planes(games)
    for i, g in enumerate(games):
        pi = trees[i].counts()
        hists[i].append((xs[i], pi, g.player))
        if len(g.moves) < TEMP_MOVES:
            a = random.choices(range(7), weights=pi)[0]
        else:
            a = pi.index(max(pi))
        g.play(a)
        if g.winner is not None:
            remember(hists[i], g.winner)
            finished += 1
            first_wins += g.winner == 1
            lens.append(len(g.moves))
            if finished % 200 == 0:
                print("   sample game:", g.record())
            games[i], hists[i] = Connect4(), []
    moves += GAMES
    rounds += 1
    if n_buf > 500:
        for _ in range(UPD_PER_MOVE):
            lp, lv = fit()
    if rounds % 10 == 0:
        print("round %d moves %d games %d  first player %.2f  len %.1f  lp %.3f lv %.3f  %.1f moves/s" % (
            rounds, moves, finished, first_wins / max(finished, 1), np.mean(lens[-200:]) if lens else 0,
            lp.item(), lv.item(), moves / (time.time() - t0)), flush=True)
    if rounds % SAVE_EVERY == 0:
        torch.save(net.state_dict(), os.path.join(here, "c4_latest.pt"))

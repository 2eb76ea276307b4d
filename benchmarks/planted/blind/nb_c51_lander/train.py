#!/usr/bin/env python
# coding: utf-8

# # Distributional DQN on my little lander
# converted with nbconvert, the plotting cells are commented out

# In[1]:


import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# get_ipython().run_line_magic('matplotlib', 'inline')
# import matplotlib.pyplot as plt

torch.manual_seed(42)
rs = np.random.RandomState(42)


# In[2]:


# lander: x, y, vx, vy, angle, spin, fuel.  actions: nothing / main / left / right
N_ENV = 16
MAXT = 300
S = np.zeros((N_ENV, 7), np.float32)
TT = np.zeros(N_ENV, np.int64)


def respawn(m):
    k = int(m.sum())
    S[m, 0] = rs.uniform(-1, 1, k)
    S[m, 1] = rs.uniform(1.2, 1.8, k)
    S[m, 2:4] = rs.uniform(-0.3, 0.3, (k, 2))
    S[m, 4] = rs.uniform(-0.2, 0.2, k)
    S[m, 5] = 0
    S[m, 6] = 1
    TT[m] = 0


def lander_step(a):
    dt = 0.04
    main = (a == 1) & (S[:, 6] > 0)
    side = np.where(a == 2, 1.0, np.where(a == 3, -1.0, 0.0))
    old = np.abs(S[:, 0]) + np.abs(S[:, 1]) + 0.4 * np.abs(S[:, 2:4]).sum(1) + 0.5 * np.abs(S[:, 4])
    S[:, 2] += dt * (-np.sin(S[:, 4]) * 2.6 * main)
    S[:, 3] += dt * (np.cos(S[:, 4]) * 2.6 * main - 1.0)
    S[:, 5] += dt * 2.0 * side
    S[:, 0] += dt * S[:, 2]
    S[:, 1] += dt * S[:, 3]
    S[:, 4] += dt * S[:, 5]
    S[:, 6] -= 0.006 * main
    TT[:] += 1
    new = np.abs(S[:, 0]) + np.abs(S[:, 1]) + 0.4 * np.abs(S[:, 2:4]).sum(1) + 0.5 * np.abs(S[:, 4])
    r = (old - new) - 0.003 * main
    ground = S[:, 1] <= 0
    soft = ground & (np.abs(S[:, 0]) < 0.3) & (np.abs(S[:, 3]) < 0.5) & (np.abs(S[:, 4]) < 0.3)
    lost = (np.abs(S[:, 0]) > 2.5) | (S[:, 1] > 3) | (np.abs(S[:, 4]) > 2.5)
    r = r + 2.0 * soft - 1.0 * (ground & ~soft) - 1.0 * lost
    done = ground | lost | (TT >= MAXT)
    nxt = S.copy()
    if done.any():
        respawn(done)
    return nxt, r.astype(np.float32), done, soft


respawn(np.ones(N_ENV, bool))


# In[3]:


GAMMA = 0.99
BATCH = 64
CAP = 60_000
LR = 3e-4
N_ATOMS = 51
V_MIN, V_MAX = -5.0, 6.0
DZ = (V_MAX - V_MIN) / (N_ATOMS - 1)
SUPPORT = torch.linspace(V_MIN, V_MAX, N_ATOMS)
START = 2_000
SYNC = 400
TOTAL = 30_000_000


class C51(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Linear(7, 128), nn.ReLU(),
            nn.Linear(128, 128), nn.ReLU(),
            nn.Linear(128, 4 * N_ATOMS),
        )

    def forward(self, x):
        return self.f(x).view(-1, 4, N_ATOMS)

    def q(self, x):
        return (self(x).softmax(-1) * SUPPORT).sum(-1)


net, tgt = C51(), C51()
tgt.load_state_dict(net.state_dict())
optim = torch.optim.Adam(net.parameters(), lr=LR, eps=1.5e-4, fused=True)
sum(p.numel() for p in net.parameters())


# In[4]:


mem_s = np.zeros((CAP, 7), np.float32)
mem_n = np.zeros((CAP, 7), np.float32)
mem_a = np.zeros(CAP, np.int64)
mem_r = np.zeros(CAP, np.float32)
mem_d = np.zeros(CAP, np.float32)
ptr, filled = 0, 0


# In[5]:


def target_dist(r, s2, d):
    with torch.no_grad():
        best = net.q(s2).argmax(1)
        p2 = tgt(s2).softmax(-1)[torch.arange(len(s2)), best]
        out = torch.zeros(len(s2), N_ATOMS)
        for i in range(len(s2)):
            tz = (r[i] + GAMMA * (1 - d[i]) * SUPPORT).clamp(V_MIN, V_MAX)
            b = (tz - V_MIN) / DZ
            lo = b.floor().long().clamp(0, N_ATOMS - 1)
            hi = (lo + 1).clamp(max=N_ATOMS - 1)
            frac = b - lo.float()
            out[i].index_add_(0, lo, p2[i] * (1 - frac))
            out[i].index_add_(0, hi, p2[i] * frac)
        return out


def train_batch():
    j = rs.randint(0, filled, BATCH)
    s, s2 = torch.from_numpy(mem_s[j]), torch.from_numpy(mem_n[j])
    a, r, d = torch.from_numpy(mem_a[j]), torch.from_numpy(mem_r[j]), torch.from_numpy(mem_d[j])
    m = target_dist(r, s2, d)
    logp = F.log_softmax(net(s), -1)[torch.arange(BATCH), a]
    loss = -(m * logp).sum(1).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.detach()


# In[6]:


# sanity check of the projection, should print ones
# print(target_dist(torch.zeros(4), torch.zeros(4, 7), torch.zeros(4)).sum(1))


# In[7]:


steps, ups = 0, 0
curve = []
landed, ended = 0, 0
l = torch.zeros(())
tic = time.time()
obs = S.copy()
while steps < TOTAL:
    eps = max(0.03, 1.0 - steps / 150_000)
    with torch.no_grad():
        a = net.q(torch.from_numpy(obs)).argmax(1).numpy()
    rand = rs.rand(N_ENV) < eps
    a = np.where(rand, rs.randint(0, 4, N_ENV), a)
    nxt, r, done, soft = lander_step(a)
    w = np.arange(ptr, ptr + N_ENV) % CAP
    mem_s[w], mem_a[w], mem_r[w], mem_n[w], mem_d[w] = obs, a, r, nxt, done
    ptr = (ptr + N_ENV) % CAP
    filled = min(filled + N_ENV, CAP)
    obs = S.copy()
    steps += N_ENV
    landed += int(soft.sum())
    ended += int(done.sum())

    if steps > START:
        l = train_batch()
        ups += 1
        if ups % SYNC == 0:
            tgt.load_state_dict(net.state_dict())

    if steps % 6400 == 0:
        curve.append((steps, landed / max(1, ended)))
        print(f"{steps:>9} steps   landed {100 * landed / max(1, ended):5.1f}%   eps {eps:.2f}   "
              f"loss {l.item():.3f}   {steps / (time.time() - tic):.0f} steps/s", flush=True)
        landed = ended = 0


# In[8]:


# plt.plot(*zip(*curve)); plt.xlabel('steps'); plt.ylabel('landing rate')
torch.save(net.state_dict(), os.path.join(os.path.dirname(os.path.abspath(__file__)), 'c51.pt'))

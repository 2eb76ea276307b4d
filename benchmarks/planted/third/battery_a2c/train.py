#!/usr/bin/env python
# coding: utf-8

# # Battery arbitrage with A2C
# (exported from battery.ipynb, `jupyter nbconvert --to script`)

# In[1]:

import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from battery_env import BatteryEnv
from make_data import write_year

np.random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)

# In[2]:

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "spot_2023.csv")
if not os.path.exists(DATA):
    write_year(DATA)

N = 8
EPISODES = 100000
GAMMA = 0.99
LAM = 0.95
ENT = 0.005
CHUNK = 48          # steps per update

envs = [BatteryEnv(DATA, seed=i) for i in range(N)]
obs_dim, n_actions = envs[0].obs_dim, envs[0].n_actions

# In[3]:


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(obs_dim, 64)
        self.fc2 = nn.Linear(64, 64)
        self.pi = nn.Linear(64, n_actions)
        self.v = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return F.log_softmax(self.pi(x), -1), self.v(x).squeeze(-1)


net = Net()
opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)

# In[4]:


def act(obs):
    with torch.no_grad():
        logp, v = net(torch.from_numpy(obs))
    u = np.random.gumbel(size=logp.shape)
    return (logp.numpy() + u).argmax(1), v.numpy()


def update(O, A, R, D, V, last_v):
    T = len(R)
    adv = np.zeros((T, N), np.float32)
    run = np.zeros(N, np.float32)
    nxt = last_v
    for t in range(T - 1, -1, -1):
        live = 1.0 - D[t]
        run = R[t] + GAMMA * nxt * live - V[t] + GAMMA * LAM * live * run
        adv[t] = run
        nxt = V[t]
    ret = torch.from_numpy((adv + V).reshape(-1))
    adv_t = torch.from_numpy(adv.reshape(-1))
    logp, v = net(torch.from_numpy(O.reshape(T * N, -1)))
    lp = logp.gather(1, torch.from_numpy(A.reshape(-1, 1)))[:, 0]
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(lp * adv_t).mean() + 0.5 * F.mse_loss(v, ret) - ENT * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()
    return loss


# In[5]:

O = np.zeros((CHUNK, N, obs_dim), np.float32)
A = np.zeros((CHUNK, N), np.int64)
R = np.zeros((CHUNK, N), np.float32)
D = np.zeros((CHUNK, N), np.float32)
V = np.zeros((CHUNK, N), np.float32)

t_start = time.time()
steps = 0
profits = []

for episode in range(EPISODES):
    obs = np.stack([e.reset() for e in envs])
    over = False
    k = 0
    while not over:
        a, v = act(obs)
        O[k], A[k], V[k] = obs, a, v
        for j, e in enumerate(envs):
            o, r, over, _ = e.step(int(a[j]))
            obs[j] = o
            R[k, j] = r
            D[k, j] = over
        steps += N
        k += 1
        if k == CHUNK:
            update(O, A, R, D, V, act(obs)[1])
            k = 0
    profits.append(np.mean([e.profit for e in envs]))
    if episode % 10 == 9:
        print("episode %d  steps %d  profit %.0f EUR  (%.0f s)" % (episode + 1, steps, np.mean(profits[-10:]),
                                                                  time.time() - t_start), flush=True)
    if episode % 500 == 499:
        torch.save(net.state_dict(), "battery.pt")

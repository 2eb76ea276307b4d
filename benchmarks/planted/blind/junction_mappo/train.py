#!/usr/bin/env python
"""Shared-parameter PPO for the light grid (pettingzoo parallel api)."""
import os
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from junctions import Junctions

SEED = 5
GAMMA, LAM = 0.98, 0.93
T = 150
EPOCHS, MB = 4, 600
CLIP, ENT, VF = 0.2, 0.01, 0.5
LR = 5e-4
HID = 96
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")

torch.manual_seed(SEED)
np.random.seed(SEED)
torch.set_num_threads(1)


class AC(nn.Module):
    def __init__(self, n_in, n_act, h=HID):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.pi = nn.Linear(h, n_act)
        self.v = nn.Linear(h, 1)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.orthogonal_(m.weight, 1.0)
                nn.init.zeros_(m.bias)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, x):
        z = self.body(x)
        return self.pi(z), self.v(z).squeeze(-1)


class Rollout:
    def __init__(self, t, n, dim):
        self.obs = np.zeros((t, n, dim), np.float32)
        self.act = np.zeros((t, n), np.int64)
        self.logp = np.zeros((t, n), np.float32)
        self.val = np.zeros((t + 1, n), np.float32)
        self.rew = np.zeros((t, n), np.float32)
        self.done = np.zeros((t, n), np.float32)

    def gae(self):
        adv = np.zeros_like(self.rew)
        last = np.zeros(self.rew.shape[1], np.float32)
        for i in range(len(self.rew) - 1, -1, -1):
            nd = 1.0 - self.done[i]
            delta = self.rew[i] + GAMMA * self.val[i + 1] * nd - self.val[i]
            last = delta + GAMMA * LAM * nd * last
            adv[i] = last
        return adv, adv + self.val[:-1]


def policy_step(net, obs, names):
    acts, logps, vals = {}, [], []
    with torch.no_grad():
        for name in names:
            logits, v = net(torch.from_numpy(obs[name]).unsqueeze(0))
            d = Categorical(logits=logits)
            a = d.sample()
            acts[name] = int(a)
            logps.append(float(d.log_prob(a)))
            vals.append(float(v))
    return acts, logps, vals


def learn(net, opt, ro):
    adv, ret = ro.gae()
    n = adv.size
    obs = torch.from_numpy(ro.obs.reshape(n, -1))
    act = torch.from_numpy(ro.act.reshape(n))
    old = torch.from_numpy(ro.logp.reshape(n))
    adv = torch.from_numpy(adv.reshape(n))
    ret = torch.from_numpy(ret.reshape(n))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(EPOCHS):
        for ix in torch.randperm(n).split(MB):
            logits, v = net(obs[ix])
            d = Categorical(logits=logits, validate_args=False)
            ratio = (d.log_prob(act[ix]) - old[ix]).exp()
            pg = -torch.min(ratio * adv[ix], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[ix]).mean()
            vl = F.smooth_l1_loss(v, ret[ix])
            ent = d.entropy().mean()
            loss = pg + VF * vl - ENT * ent
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
    return pg.item(), vl.item(), ent.item()


def main():
    os.makedirs(OUT, exist_ok=True)
    env = Junctions(seed=SEED)
    names = env.possible_agents
    dim = env.observation_space(names[0]).shape[0]
    net = AC(dim, env.action_space(names[0]).n)
    opt = torch.optim.Adam(net.parameters(), lr=LR, eps=1e-5)
    ro = Rollout(T, len(names), dim)

    obs, _ = env.reset(seed=SEED)
    ep_r, ep_hist, steps = 0.0, [], 0
    t0 = tl = time.time()
    sl = 0
    for it in range(1, 1_000_000):
        for t in range(T):
            acts, logps, vals = policy_step(net, obs, names)
            nobs, rew, term, trunc, _ = env.step(acts)
            ro.obs[t] = np.stack([obs[k] for k in names])
            ro.act[t] = [acts[k] for k in names]
            ro.logp[t] = logps
            ro.val[t] = vals
            ro.rew[t] = [rew[k] for k in names]
            fin = trunc[names[0]] or term[names[0]]
            ro.done[t] = float(fin)
            ep_r += float(ro.rew[t].mean())
            steps += 1
            if fin:
                ep_hist.append(ep_r)
                ep_r = 0.0
                nobs, _ = env.reset()
            obs = nobs
        ro.val[T] = policy_step(net, obs, names)[2]
        pg, vl, ent = learn(net, opt, ro)
        if time.time() - tl > 2:
            sps = (steps - sl) / (time.time() - tl)
            m = np.mean(ep_hist[-10:]) if ep_hist else float("nan")
            print(f"upd {it} steps {steps} sps {sps:.1f} R {m:.2f} pg {pg:.4f} v {vl:.4f} H {ent:.3f} ({time.time() - t0:.0f}s)", flush=True)
            tl, sl = time.time(), steps
        if it % 500 == 0:
            torch.save(net.state_dict(), os.path.join(OUT, f"ac_{it // 500 % 3}.pt"))


if __name__ == "__main__":
    main()

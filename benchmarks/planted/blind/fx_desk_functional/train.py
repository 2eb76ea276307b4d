"""a2c on the fx desk.  16 desks run side by side, each its own State tuple.

TODO  - proper train / holdout split of the dates
      - sizing (only -1/0/1 now)
"""
import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import market

ap = argparse.ArgumentParser()
ap.add_argument("--desks", type=int, default=16)
ap.add_argument("--rollout", type=int, default=20)
ap.add_argument("--lr", type=float, default=7e-4)
ap.add_argument("--gamma", type=float, default=0.97)
ap.add_argument("--lam", type=float, default=0.9)
ap.add_argument("--ent", type=float, default=0.01)
ap.add_argument("--width", type=int, default=96)
ap.add_argument("--iters", type=int, default=400000)
ap.add_argument("--seed", type=int, default=0)
args = ap.parse_args()

rng = np.random.default_rng(args.seed)
torch.manual_seed(args.seed)


class Trader(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(market.OBS, w), nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.head = nn.Linear(w, 3 + 1)

    def forward(self, x):
        y = self.head(self.trunk(x))
        return y[..., :3], y[..., 3]


net = Trader(args.width)
opt = torch.optim.RMSprop(net.parameters(), lr=args.lr, alpha=0.99, eps=1e-5)

N, T = args.desks, args.rollout
states, obs = [], np.zeros((N, market.OBS), np.float32)
for i in range(N):
    s, obs[i] = market.reset(rng)
    s = s._replace(left=int(rng.integers(10, market.LEN)))   # so that they don't all end at once
    states.append(s)

bo = np.zeros((T, N, market.OBS), np.float32)
ba = np.zeros((T, N), np.int64)
br = np.zeros((T, N), np.float32)
bd = np.zeros((T, N), np.float32)
pnl_log, t_start, n_steps = [], time.time(), 0

for it in range(1, args.iters + 1):
    for t in range(T):
        with torch.no_grad():
            logits, _ = net(torch.from_numpy(obs))
            gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp_min(1e-10)))
            act = (logits + gumbel).argmax(-1).tolist()
        bo[t] = obs
        ba[t] = act
        for i in range(N):
            states[i], o, r, done = market.step(states[i], act[i])
            br[t, i], bd[t, i] = r, done
            if done:
                pnl_log.append(states[i].pnl)
                states[i], o = market.reset(rng)
            obs[i] = o
    n_steps += N * T

    x = torch.from_numpy(bo)
    logits, v = net(x)
    with torch.no_grad():
        _, v_last = net(torch.from_numpy(obs))
    vn = v.detach().numpy()
    adv = np.zeros_like(br)
    run, nxt = np.zeros(N, np.float32), v_last.numpy()
    for t in reversed(range(T)):
        live = 1 - bd[t]
        run = br[t] + args.gamma * live * nxt - vn[t] + args.gamma * args.lam * live * run
        adv[t] = run
        nxt = vn[t]
    A = torch.from_numpy(adv)
    tgt = A + v.detach()
    lp = F.log_softmax(logits, -1)
    chosen = lp.gather(-1, torch.from_numpy(ba)[..., None]).squeeze(-1)
    ent = -(lp.exp() * lp).sum(-1).mean()
    loss = -(chosen * (A - A.mean()) / (A.std() + 1e-6)).mean() + 0.5 * F.mse_loss(v, tgt) - args.ent * ent
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    opt.step()

    if it % 25 == 0:
        recent = pnl_log[-200:]
        pnl_log = recent
        print(f"[{it:6d}] steps={n_steps} pnl/ep={1e4 * np.mean(recent) if recent else 0:+.2f}bp "
              f"entropy={ent.item():.3f} loss={loss.item():.4f} sps={n_steps / (time.time() - t_start):.0f}", flush=True)
    if it % 2000 == 0:
        os.makedirs(os.path.join(os.path.dirname(os.path.abspath(__file__)), "out"), exist_ok=True)
        torch.save(net.state_dict(), os.path.join(os.path.dirname(os.path.abspath(__file__)), "out", "trader.pt"))

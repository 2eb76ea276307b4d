# parameter-shared PPO for the wolf pack
import argparse
import os
import time
from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from wolves import WolfPack

torch.distributions.Distribution.set_default_validate_args(False)


class Brain(nn.Module):
    def __init__(self, obs, act, hid=96):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs, hid), nn.Tanh(), nn.Linear(hid, hid), nn.Tanh())
        self.pol = nn.Linear(hid, act)
        self.val = nn.Linear(hid, 1)

    def forward(self, o):
        z = self.enc(o)
        return self.pol(z), self.val(z).squeeze(-1)


def choose(brain, obs):
    """obs dict -> three dicts"""
    acts, lps, vals = {}, {}, {}
    with torch.no_grad():
        for name, o in obs.items():
            logits, v = brain(torch.from_numpy(o))
            dist = Categorical(logits=logits)
            a = dist.sample()
            acts[name] = a.item()
            lps[name] = dist.log_prob(a).item()
            vals[name] = v.item()
    return acts, lps, vals


def advantage(r, v, last, gamma, lam, cut):
    out = np.zeros_like(r)
    g = np.zeros(r.shape[1], np.float32)
    for t in range(len(r) - 1, -1, -1):
        vn = last if t == len(r) - 1 else v[t + 1]
        live = 0.0 if cut[t] else 1.0
        g = r[t] + gamma * vn * live - v[t] + gamma * lam * live * g
        out[t] = g
    return out


def update(brain, opt, batch, args):
    o, a, lp0, adv, ret = batch
    stats = []
    n = len(a)
    for _ in range(args.epochs):
        for ix in torch.randperm(n).split(args.mb):
            logits, v = brain(o[ix])
            d = Categorical(logits=logits)
            ratio = torch.exp(d.log_prob(a[ix]) - lp0[ix])
            ad = adv[ix]
            ad = (ad - ad.mean()) / (ad.std() + 1e-8)
            pg = -torch.minimum(ratio * ad, ratio.clamp(0.8, 1.2) * ad).mean()
            vf = (v - ret[ix]).square().mean()
            loss = pg + 0.5 * vf - args.ent * d.entropy().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(brain.parameters(), 0.5)
            opt.step()
        stats.append(loss.detach())
    return torch.stack(stats).mean()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--wolves", type=int, default=16)
    p.add_argument("--deer", type=int, default=4)
    p.add_argument("--len", type=int, default=64, help="env steps between updates")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--mb", type=int, default=512)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--ent", type=float, default=0.01)
    p.add_argument("--updates", type=int, default=100000)
    p.add_argument("--seed", type=int, default=7)
    args = p.parse_args()
    torch.manual_seed(args.seed)

    env = WolfPack(args.wolves, args.deer, seed=args.seed)
    brain = Brain(env.obs_dim, env.n_act)
    opt = torch.optim.Adam(brain.parameters(), lr=args.lr, fused=True)
    names = env.agents
    T, W = args.len, args.wolves
    O = np.zeros((T, W, env.obs_dim), np.float32)
    A = np.zeros((T, W), np.int64)
    LP, V, R = (np.zeros((T, W), np.float32) for _ in range(3))
    cut = np.zeros(T, bool)

    obs = env.reset()
    total, kills, log = 0, 0, defaultdict(list)
    start = time.time()
    for u in range(1, args.updates + 1):
        for t in range(T):
            acts, lps, vals = choose(brain, obs)
            O[t] = np.stack([obs[k] for k in names])
            A[t] = [acts[k] for k in names]
            LP[t] = [lps[k] for k in names]
            V[t] = [vals[k] for k in names]
            obs, rew, over, info = env.step(acts)
            R[t] = [rew[k] for k in names]
            cut[t] = over
            kills += info["caught"]
            if over:
                log["kills"].append(kills)
                kills = 0
                obs = env.reset()
        total += T
        _, _, last = choose(brain, obs)
        adv = advantage(R, V, np.array([last[k] for k in names], np.float32), 0.98, 0.95, cut)
        batch = [torch.from_numpy(x) for x in (O.reshape(T * W, -1), A.reshape(-1), LP.reshape(-1),
                                               adv.reshape(-1), (adv + V).reshape(-1))]
        loss = update(brain, opt, batch, args)
        if u % 10 == 0:
            k = log["kills"][-20:]
            print(f"update {u:5d} | env steps {total:8d} | kills/ep {np.mean(k) if k else float('nan'):6.2f} | "
                  f"rew {R.mean():+.4f} | loss {loss.item():.4f} | {total / (time.time() - start):.0f} steps/s", flush=True)
        if u % 500 == 0:
            out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saved")
            os.makedirs(out, exist_ok=True)
            torch.save({"brain": brain.state_dict(), "u": u}, os.path.join(out, "pack.pt"))


if __name__ == "__main__":
    main()

import argparse
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from make_data import main as make_data
from market.env import FxEnv

torch.set_num_threads(1)


class PolicyNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


def discounted(rewards, gamma):
    out = np.zeros(len(rewards), dtype=np.float32)
    g = 0.0
    for i in reversed(range(len(rewards))):
        g = rewards[i] + gamma * g
        out[i] = g
    return out


def run_episode(env, net, rng):
    obs, acts, rews = [], [], []
    o, done = env.reset(), False
    while not done:
        with torch.no_grad():
            logits, _ = net(torch.from_numpy(o).unsqueeze(0))
            p = torch.softmax(logits[0], -1).numpy()
        a = min(int(np.searchsorted(np.cumsum(p), rng.random())), env.n_actions - 1)
        o2, r, done, info = env.step(a)
        obs.append(o)
        acts.append(a)
        rews.append(r)
        o = o2
    return np.stack(obs), np.array(acts), rews, info["equity"]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/eurusd_h1.csv")
    ap.add_argument("--episodes", type=int, default=200_000)
    ap.add_argument("--lr", type=float, default=3e-4)
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--entropy", type=float, default=0.01)
    ap.add_argument("--hidden", type=int, default=64)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()

    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(here, args.data)
    if not os.path.exists(path):
        make_data(path)

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    env = FxEnv(path, seed=args.seed)
    net = PolicyNet(env.obs_dim, env.n_actions, args.hidden)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)

    steps, equities, t0 = 0, [], time.time()
    for ep in range(1, args.episodes + 1):
        obs, acts, rews, equity = run_episode(env, net, rng)
        ret = torch.from_numpy(discounted(rews, args.gamma))
        logits, values = net(torch.from_numpy(obs))
        logp_all = F.log_softmax(logits, -1)
        logp = logp_all.gather(1, torch.from_numpy(acts).unsqueeze(1)).squeeze(1)
        adv = ret - values.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        ent = -(logp_all.exp() * logp_all).sum(-1).mean()
        loss = -(logp * adv).mean() + 0.5 * F.mse_loss(values, ret) - args.entropy * ent
        opt.zero_grad()
        loss.backward()
        opt.step()
        steps += len(rews)
        equities.append(equity)
        if ep % 50 == 0:
            print(f"ep {ep}  steps {steps}  equity(50) {np.mean(equities[-50:]):+.5f}  {steps / (time.time() - t0):.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()

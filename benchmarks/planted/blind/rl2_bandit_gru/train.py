"""RL^2: one recurrent policy that learns to explore bandits within an episode.
A2C with V-trace correction on two passes over the same rollout. Old gym style env (4-tuple)."""
import argparse
import os
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class BanditFarm:
    """B independent K-armed bandits, all with the same number of pulls. reset() -> obs, step() -> obs, r, done, info"""

    def __init__(self, B, K, pulls, drift, seed):
        self.B, self.K, self.pulls, self.drift = B, K, pulls, drift
        self.rng = np.random.default_rng(seed)
        self.rows = np.arange(B)
        self.dim = K + 3

    def reset(self):
        self.mu = self.rng.normal(0, 1, (self.B, self.K)).astype(np.float32)
        self.t = 0
        self.regret = np.zeros(self.B, np.float32)
        self.o = np.zeros((self.B, self.dim), np.float32)
        self.o[:, -1] = 1.0
        return self.o

    def step(self, a):
        m = self.mu[self.rows, a]
        r = m + 0.3 * self.rng.standard_normal(self.B, dtype=np.float32)
        self.regret += self.mu.max(1) - m
        self.mu += self.drift * self.rng.standard_normal((self.B, self.K), dtype=np.float32)
        self.t += 1
        o = np.zeros((self.B, self.dim), np.float32)
        o[self.rows, a] = 1
        o[:, -3] = r
        o[:, -2] = self.t / self.pulls
        self.o = o
        done = self.t >= self.pulls
        return o, r, done, {"regret": float(self.regret.mean())} if done else {}


class Core(nn.Module):
    def __init__(self, dim, K, hid):
        super().__init__()
        self.inp = nn.Linear(dim, hid)
        self.gru = nn.GRU(hid, hid)
        self.head = nn.Linear(hid, K + 1)
        self.K = K

    def forward(self, x, h):
        y, h = self.gru(F.relu(self.inp(x)), h)
        z = self.head(y)
        return F.log_softmax(z[..., :self.K], -1), z[..., self.K], h


class MetaAgent:
    def __init__(self, a):
        self.a = a
        torch.manual_seed(a.seed)
        self.env = BanditFarm(a.bandits, a.arms, a.pulls, a.drift, a.seed)
        self.net = Core(self.env.dim, a.arms, a.hidden)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=a.lr, fused=True)
        T, B = a.pulls, a.bandits
        self.x = torch.zeros(T, B, self.env.dim)
        self.act = torch.zeros(T, B, dtype=torch.long)
        self.lp = torch.zeros(T, B)
        self.r = np.zeros((T, B), np.float32)
        self.steps = 0

    @torch.no_grad()
    def play(self):
        o = self.env.reset()
        h = torch.zeros(1, self.a.bandits, self.a.hidden)
        for t in range(self.a.pulls):
            self.x[t] = torch.from_numpy(o)
            lp, _, h = self.net(self.x[t:t + 1], h)
            a = (lp[0] + torch.empty_like(lp[0]).exponential_().log().neg()).argmax(-1)
            self.act[t] = a
            self.lp[t] = lp[0].gather(1, a[:, None]).squeeze(1)
            o, self.r[t], done, info = self.env.step(a.numpy())
        self.steps += self.a.pulls * self.a.bandits
        return info["regret"]

    def vtrace(self, v, rho):
        g, lam = self.a.gamma, self.a.lam
        T = len(v)
        rho = np.minimum(rho, 1.0)
        vs = np.zeros_like(v)
        acc = np.zeros(v.shape[1], np.float32)
        for t in range(T - 1, -1, -1):
            vn = v[t + 1] if t + 1 < T else 0.0
            acc = rho[t] * (self.r[t] + g * vn - v[t]) + g * lam * rho[t] * acc
            vs[t] = v[t] + acc
        nxt = np.concatenate([vs[1:], np.zeros_like(vs[:1])])
        adv = rho * (self.r + g * nxt - v)
        return torch.from_numpy(vs), torch.from_numpy(adv)

    def learn(self):
        h0 = torch.zeros(1, self.a.bandits, self.a.hidden)
        for _ in range(self.a.passes):
            lp, v, _ = self.net(self.x, h0)
            new = lp.gather(-1, self.act[..., None]).squeeze(-1)
            with torch.no_grad():
                rho = (new - self.lp).exp().numpy()
                vs, adv = self.vtrace(v.numpy(), rho)
                adv = (adv - adv.mean()) / (adv.std() + 1e-6)
            ent = -(lp.exp() * lp).sum(-1).mean()
            loss = -(new * adv).mean() + 0.25 * (v - vs).pow(2).mean() - self.a.ent * ent
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.opt.step()
        return loss.detach(), ent.detach()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bandits", type=int, default=96)
    p.add_argument("--arms", type=int, default=10)
    p.add_argument("--pulls", type=int, default=40)
    p.add_argument("--drift", type=float, default=0.02)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--ent", type=float, default=0.005)
    p.add_argument("--passes", type=int, default=2)
    p.add_argument("--rounds", type=int, default=1000000)
    p.add_argument("--seed", type=int, default=4)
    a = p.parse_args()
    agent = MetaAgent(a)
    t0, reg = time.time(), []
    for k in range(1, a.rounds + 1):
        reg.append(agent.play())
        loss, ent = agent.learn()
        if k % 4 == 0:
            reg = reg[-50:]
            print(f"round {k} steps {agent.steps} regret {np.mean(reg):.2f} loss {loss:.3f} ent {ent:.3f} "
                  f"{agent.steps / (time.time() - t0):.0f} sps", flush=True)
        if k % 300 == 0:
            d = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saves")
            os.makedirs(d, exist_ok=True)
            torch.save(agent.net.state_dict(), os.path.join(d, "rl2.pt"))


if __name__ == "__main__":
    main()

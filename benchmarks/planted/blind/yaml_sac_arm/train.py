"""SAC, three link planar arm, reach + obstacle. All settings in sac.yaml (next to this file)."""
import math
import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    with open(path) as f:
        raw = yaml.safe_load(f)
    ns = SimpleNamespace(**{k: SimpleNamespace(**v) if isinstance(v, dict) else v for k, v in raw.items()})
    return ns


class Arms:
    def __init__(self, num, links, horizon, seed):
        self.n, self.h = num, horizon
        self.l = np.asarray(links, np.float32)
        self.k = len(links)
        self.rng = np.random.default_rng(seed)
        self.q = np.zeros((num, self.k), np.float32)
        self.w = np.zeros((num, self.k), np.float32)
        self.goal = np.zeros((num, 2), np.float32)
        self.obst = np.zeros((num, 2), np.float32)
        self.t = np.zeros(num, np.int64)
        self.obs_dim, self.act_dim = 3 * self.k + 6 + 1, self.k
        self._new(np.arange(num))

    def _new(self, ix):
        m = len(ix)
        self.q[ix] = self.rng.uniform(-np.pi, np.pi, (m, self.k))
        self.w[ix] = 0
        rad, th = self.rng.uniform(0.4, 1.1, m), self.rng.uniform(-np.pi, np.pi, m)
        self.goal[ix] = np.stack([rad * np.cos(th), rad * np.sin(th)], 1)
        self.obst[ix] = self.goal[ix] * 0.5 + self.rng.normal(0, 0.1, (m, 2))
        self.t[ix] = 0

    def tip(self):
        c = np.cumsum(self.q, 1)
        return np.stack([(self.l * np.cos(c)).sum(1), (self.l * np.sin(c)).sum(1)], 1)

    def obs(self):
        tip = self.tip()
        return np.concatenate([np.sin(self.q), np.cos(self.q), 0.2 * self.w, self.goal - tip, self.obst - tip, tip,
                               (self.t / self.h)[:, None]], 1, dtype=np.float32)

    def step(self, a):
        self.w = 0.92 * self.w + 0.6 * a
        self.q = self.q + 0.05 * self.w
        self.t += 1
        tip = self.tip()
        d = np.linalg.norm(tip - self.goal, axis=1)
        o = np.linalg.norm(tip - self.obst, axis=1)
        r = -d + 0.5 * (d < 0.05) - 1.0 * (o < 0.1) - 0.01 * (a ** 2).sum(1)
        out = self.obs()
        trunc = self.t >= self.h
        if trunc.any():
            self._new(np.nonzero(trunc)[0])
        return out, r.astype(np.float32), trunc, d


class Actor(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(o, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 2 * a))

    def forward(self, x, noise=True):
        mu, ls = self.net(x).chunk(2, -1)
        if not noise:
            return torch.tanh(mu), None
        ls = ls.clamp(-5, 2)
        eps = torch.randn_like(mu)
        u = mu + ls.exp() * eps
        lp = (-0.5 * eps * eps - ls - 0.9189385 - 2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), lp


class TwinQ(nn.Module):
    """both critics in one set of weights (2, in, out)"""

    def __init__(self, i, h):
        super().__init__()
        def w(a, b):
            k = 1 / math.sqrt(a)
            return (nn.Parameter(torch.empty(2, a, b).uniform_(-k, k)), nn.Parameter(torch.empty(2, 1, b).uniform_(-k, k)))
        self.w1, self.b1 = w(i, h)
        self.w2, self.b2 = w(h, h)
        self.w3, self.b3 = w(h, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], -1).expand(2, -1, -1)
        x = F.relu(torch.baddbmm(self.b1, x, self.w1))
        x = F.relu(torch.baddbmm(self.b2, x, self.w2))
        return torch.baddbmm(self.b3, x, self.w3).squeeze(-1)


def test(actor, cfg):
    e = Arms(cfg.io.test_n, cfg.env.links, cfg.env.horizon, 999)
    tot = np.zeros(cfg.io.test_n)
    with torch.no_grad():
        for _ in range(cfg.env.horizon):
            a, _ = actor(torch.from_numpy(e.obs()), noise=False)
            _, r, _, d = e.step(a.numpy())
            tot += r
    return tot.mean(), (d < 0.05).mean()


def main():
    cfg = load(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "sac.yaml"))
    s = cfg.sac
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    env = Arms(cfg.env.num, cfg.env.links, cfg.env.horizon, cfg.seed)
    env.t = rng.integers(0, cfg.env.horizon, env.n)
    od, ad = env.obs_dim, env.act_dim
    pi, q, qt = Actor(od, ad, s.hidden), TwinQ(od + ad, s.hidden), TwinQ(od + ad, s.hidden)
    qt.load_state_dict(q.state_dict())
    qp, tp = list(q.parameters()), list(qt.parameters())
    for p in tp:
        p.requires_grad_(False)
    log_a = torch.zeros((), requires_grad=True)
    o_pi = torch.optim.Adam(pi.parameters(), lr=s.lr, fused=True)
    o_q = torch.optim.Adam(qp, lr=s.lr, fused=True)
    o_a = torch.optim.Adam([log_a], lr=s.lr, fused=True)

    # one row = obs | act | rew | next obs   (no terminals here, only time limits)
    mem = torch.zeros(s.capacity, 2 * od + ad + 1)
    head = size = 0
    steps = ups = 0
    qloss = torch.zeros(())
    ep, acc = [], np.zeros(env.n)
    t0 = time.time()
    obs = env.obs()
    while steps < cfg.total:
        if steps < s.start:
            a = rng.uniform(-1, 1, (env.n, ad)).astype(np.float32)
        else:
            with torch.no_grad():
                a = pi(torch.from_numpy(obs))[0].numpy()
        nxt, r, trunc, _ = env.step(a)
        row = np.concatenate([obs, a, r[:, None], nxt], 1)
        w = (head + torch.arange(env.n)) % s.capacity
        mem[w] = torch.from_numpy(row)
        head = (head + env.n) % s.capacity
        size = min(size + env.n, s.capacity)
        acc += r
        if trunc.any():
            ep += acc[trunc].tolist()
            acc[trunc] = 0
            nxt = env.obs()
        obs = nxt
        steps += env.n

        if steps >= s.start:
            for _ in range(env.n * s.updates_per_env_step):
                b = mem[torch.randint(0, size, (s.batch,))]
                bo, ba, br, bn = b.split([od, ad, 1, od], -1)
                alpha = log_a.detach().exp()
                with torch.no_grad():
                    na, nlp = pi(bn)
                    y = br[:, 0] + s.gamma * (qt(bn, na).amin(0) - alpha * nlp)
                qloss = (q(bo, ba) - y).pow(2).mean() * 2
                o_q.zero_grad()
                qloss.backward()
                o_q.step()
                for p in qp:
                    p.requires_grad_(False)
                na, lp = pi(bo)
                ploss = (alpha * lp - q(bo, na).amin(0)).mean()
                o_pi.zero_grad()
                ploss.backward()
                o_pi.step()
                for p in qp:
                    p.requires_grad_(True)
                aloss = -(log_a * (lp.detach() - ad)).mean()
                o_a.zero_grad()
                aloss.backward()
                o_a.step()
                with torch.no_grad():
                    torch._foreach_lerp_(tp, qp, s.tau)
                ups += 1
        if steps % cfg.io.print == 0:
            print(f"{cfg.name} {steps:8d} ep {np.mean(ep[-50:]) if ep else 0:8.2f} q {qloss.item():.4f} "
                  f"alpha {log_a.exp().item():.3f} ups {ups} {steps / (time.time() - t0):.0f}/s", flush=True)
        if steps % cfg.io.test_every == 0:
            print("   test: return %.2f, reached %.2f" % test(pi, cfg), flush=True)
            os.makedirs(os.path.join(HERE, "w"), exist_ok=True)
            torch.save(pi.state_dict(), os.path.join(HERE, "w", "actor.pt"))


if __name__ == "__main__":
    main()

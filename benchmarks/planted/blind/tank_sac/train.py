"""SAC for the three tank level control (the thing from the process control lecture), everything in one file"""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = {
    "n_plants": 8,
    "episode_len": 200,
    "start": 1600,
    "batch": 128,
    "grad_steps": 32,
    "buffer": 200_000,
    "hidden": 128,
    "lr": 3e-4,
    "gamma": 0.98,
    "tau": 0.005,
    "report": 40,
    "save_every": 100_000,
    "total": 3_000_000,
    "seed": 9,
}
HERE = os.path.dirname(os.path.abspath(__file__))


class ThreeTanks:
    """three coupled tanks, two pumps. drive(u) -> levels, cost, timeouts"""

    def __init__(self, n, T, seed):
        self.n, self.T = n, T
        self.rng = np.random.default_rng(seed)
        self.h = np.zeros((n, 3)); self.ref = np.zeros((n, 2)); self.k = np.zeros(n, int)
        self.leak = np.zeros((n, 1))

    def begin(self, m=None):
        m = np.ones(self.n, bool) if m is None else m
        c = int(m.sum())
        self.h[m] = self.rng.uniform(0.1, 0.6, (c, 3))
        self.ref[m] = self.rng.uniform(0.15, 0.55, (c, 2))
        self.leak[m] = self.rng.uniform(0.0, 0.01, (c, 1))
        self.k[m] = 0
        return self.view()

    def view(self):
        return np.concatenate([self.h * 2, self.ref * 2, (self.ref - self.h[:, :2]) * 4], 1).astype(np.float32)

    def drive(self, u):
        q_in = 0.02 * (np.clip(u, -1, 1) + 1) / 2
        h1, h2, h3 = self.h.T
        q13 = 0.02 * np.sign(h1 - h3) * np.sqrt(np.abs(h1 - h3))
        q32 = 0.02 * np.sign(h3 - h2) * np.sqrt(np.abs(h3 - h2))
        q20 = 0.015 * np.sqrt(np.maximum(h2, 0))
        dh = np.stack([q_in[:, 0] - q13, q_in[:, 1] + q32 - q20, q13 - q32], 1) - self.leak * self.h
        self.h = np.clip(self.h + dh, 0, 0.8)
        err = np.abs(self.ref - self.h[:, :2]).sum(1)
        cost = err + 0.02 * (q_in.sum(1) / 0.04)
        self.k += 1
        out = self.view()
        t = self.k >= self.T
        return out, cost.astype(np.float32), t


class Pi(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        self.l1, self.l2, self.out = nn.Linear(o, h), nn.Linear(h, h), nn.Linear(h, 2 * a)

    def forward(self, o):
        x = F.relu(self.l2(F.relu(self.l1(o))))
        mu, ls = self.out(x).chunk(2, -1)
        ls = ls.clamp(-5, 1)
        eps = torch.randn_like(mu)
        pre = mu + ls.exp() * eps
        act = torch.tanh(pre)
        logp = (-0.5 * eps ** 2 - ls - 0.919 - 2 * (0.6931 - pre - F.softplus(-2 * pre))).sum(-1)
        return act, logp


class TwinQ(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        f = lambda: nn.Sequential(nn.Linear(o + a, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))
        self.q1, self.q2 = f(), f()

    def forward(self, o, a):
        x = torch.cat([o, a], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class SAC:
    def __init__(self, o, a, c):
        self.c = c
        self.pi = Pi(o, a, c["hidden"])
        self.q, self.qt = TwinQ(o, a, c["hidden"]), TwinQ(o, a, c["hidden"])
        self.qt.load_state_dict(self.q.state_dict())
        for x in self.qt.parameters():
            x.requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.opt_pi = torch.optim.Adam(self.pi.parameters(), lr=c["lr"], fused=True)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=c["lr"], fused=True)
        self.opt_al = torch.optim.Adam([self.log_alpha], lr=c["lr"])
        self.target_ent = -float(a)
        self._q, self._qt = list(self.q.parameters()), list(self.qt.parameters())

    def step(self, s, a, r, s2):
        al = self.log_alpha.detach().exp()
        with torch.no_grad():
            a2, lp2 = self.pi(s2)
            y = r + self.c["gamma"] * (torch.min(*self.qt(s2, a2)) - al * lp2)
        q1, q2 = self.q(s, a)
        lq = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.opt_q.zero_grad(set_to_none=True)
        lq.backward()
        self.opt_q.step()

        for x in self._q:
            x.requires_grad_(False)
        an, lp = self.pi(s)
        lpi = (al * lp - torch.min(*self.q(s, an))).mean()
        self.opt_pi.zero_grad(set_to_none=True)
        lpi.backward()
        self.opt_pi.step()
        for x in self._q:
            x.requires_grad_(True)

        lal = -self.log_alpha * (lp.detach().mean() + self.target_ent)
        self.opt_al.zero_grad(set_to_none=True)
        lal.backward()
        self.opt_al.step()
        with torch.no_grad():
            torch._foreach_lerp_(self._qt, self._q, self.c["tau"])
        return lq.detach(), lpi.detach()


def main(c):
    torch.manual_seed(c["seed"])
    rng = np.random.default_rng(c["seed"])
    torch.set_num_threads(1)
    plant = ThreeTanks(c["n_plants"], c["episode_len"], c["seed"])
    obs = plant.begin()
    plant.k[:] = rng.integers(0, c["episode_len"], c["n_plants"])
    o_dim, a_dim = obs.shape[1], 2
    agent = SAC(o_dim, a_dim, c)

    cap, n = c["buffer"], c["n_plants"]
    S, S2 = np.zeros((cap, o_dim), np.float32), np.zeros((cap, o_dim), np.float32)
    A, R = np.zeros((cap, a_dim), np.float32), np.zeros(cap, np.float32)
    ptr = size = 0
    costs, t_rep, lq = [], time.time(), None
    t_start = t_rep

    for step in range(n, c["total"], n):
        if step < c["start"]:
            act = rng.uniform(-1, 1, (n, a_dim)).astype(np.float32)
        else:
            with torch.inference_mode():
                act = agent.pi(torch.from_numpy(obs))[0].numpy()
        nxt, cost, timeout = plant.drive(act)
        sl = (ptr + np.arange(n)) % cap
        S[sl], A[sl], R[sl], S2[sl] = obs, act, -cost, nxt
        ptr, size = (ptr + n) % cap, min(size + n, cap)
        costs.append(cost.mean())
        obs = plant.begin(timeout) if timeout.any() else nxt

        if step >= c["start"]:
            for _ in range(c["grad_steps"]):
                ix = rng.integers(0, size, c["batch"])
                lq, lpi = agent.step(*(torch.from_numpy(z[ix]) for z in (S, A, R, S2)))

        if step % c["report"] == 0 and lq is not None:
            now = time.time()
            print(f"step {step:8d} | cost {np.mean(costs[-200:]):.4f} | lq {lq.item():.5f} | alpha "
                  f"{agent.log_alpha.exp().item():.3f} | {c['report'] / (now - t_rep):.1f} sps | {now - t_start:.0f}s", flush=True)
            t_rep = now
            costs = costs[-200:]
        if step % c["save_every"] == 0:
            os.makedirs(os.path.join(HERE, "out"), exist_ok=True)
            torch.save(agent.pi.state_dict(), os.path.join(HERE, "out", "pi.pt"))


if __name__ == "__main__":
    main(CFG)

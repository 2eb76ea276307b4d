"""PPO with a Gaussian policy: a flock of gliders learns to ride thermals."""
import argparse
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    seed: int = 3
    gliders: int = 16
    span: int = 128
    passes: int = 5
    minibatch: int = 16
    updates: int = 4000
    lr: float = 2.5e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2


class Thermals:
    """Point-mass gliders on a ring with a few moving columns of rising air."""

    dim_obs, dim_act = 9, 2

    def __init__(self, n, seed):
        self.n = n
        self.g = np.random.default_rng(seed)
        self.alt = np.zeros(n)
        self.pos = np.zeros(n)
        self.vel = np.zeros(n)
        self.core = np.zeros((n, 3))
        self.clock = np.zeros(n, dtype=int)

    def _place(self, m):
        k = int(m.sum())
        self.alt[m] = self.g.uniform(0.4, 0.8, k)
        self.pos[m] = self.g.uniform(-1, 1, k)
        self.vel[m] = 0.2
        self.core[m] = self.g.uniform(-1, 1, (k, 3))
        self.clock[m] = 0

    def reset(self):
        self._place(np.ones(self.n, dtype=bool))
        return self._view()

    def _offsets(self):
        d = self.core - self.pos[:, None]
        return (d + 1.0) % 2.0 - 1.0

    def _view(self):
        d = self._offsets()
        cols = [self.alt, self.vel, np.sin(np.pi * self.pos), *d.T, *np.exp(-20 * d * d).T]
        return np.stack(cols, axis=1).astype(np.float32)

    def step(self, act):
        act = np.clip(act, -1.0, 1.0)
        self.core = (self.core + 0.003 + 1.0) % 2.0 - 1.0
        lift = 0.03 * np.exp(-20 * self._offsets() ** 2).sum(axis=1)
        self.vel = np.clip(self.vel + 0.05 * act[:, 0], -0.6, 0.6)
        drag = 0.008 + 0.03 * self.vel**2 + 0.004 * act[:, 1] ** 2
        self.pos = (self.pos + 0.1 * self.vel + 1.0) % 2.0 - 1.0
        self.alt = self.alt + lift - drag
        self.clock += 1
        fallen = self.alt < 0.0
        over = fallen | (self.clock >= 250)
        reward = np.minimum(self.alt, 1.5) - 2.0 * fallen
        self._place(over)
        return self._view(), reward.astype(np.float32), over.astype(np.float32)


class Pilot(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_out))
        self.value = nn.Sequential(nn.Linear(n_in, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.full((n_out,), -0.5))

    def log_prob(self, mu, a):
        z = (a - mu) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.9189385).sum(-1)


def collect(env, pilot, obs, cfg):
    shape = (cfg.span, cfg.gliders)
    data = {
        "obs": np.empty((*shape, env.dim_obs), np.float32),
        "act": np.empty((*shape, env.dim_act), np.float32),
        "logp": np.empty(shape, np.float32),
        "val": np.empty(shape, np.float32),
        "rew": np.empty(shape, np.float32),
        "end": np.empty(shape, np.float32),
    }
    with torch.no_grad():
        for t in range(cfg.span):
            x = torch.from_numpy(obs)
            mu = pilot.mu(x)
            a = mu + torch.exp(pilot.log_std) * torch.randn_like(mu)
            data["obs"][t] = obs
            data["act"][t] = a.numpy()
            data["logp"][t] = pilot.log_prob(mu, a).numpy()
            data["val"][t] = pilot.value(x).squeeze(-1).numpy()
            obs, data["rew"][t], data["end"][t] = env.step(data["act"][t])
        tail = pilot.value(torch.from_numpy(obs)).squeeze(-1).numpy()
    adv = np.empty(shape, np.float32)
    acc = np.zeros(cfg.gliders, np.float32)
    for t in reversed(range(cfg.span)):
        keep = 1.0 - data["end"][t]
        acc = data["rew"][t] + cfg.gamma * tail * keep - data["val"][t] + cfg.gamma * cfg.lam * keep * acc
        adv[t] = acc
        tail = data["val"][t]
    data["adv"] = adv
    data["ret"] = adv + data["val"]
    return obs, {k: torch.from_numpy(v.reshape(cfg.span * cfg.gliders, *v.shape[2:])) for k, v in data.items()}


def improve(pilot, opt, d, cfg):
    total = cfg.span * cfg.gliders
    adv = (d["adv"] - d["adv"].mean()) / (d["adv"].std() + 1e-8)
    for _ in range(cfg.passes):
        order = torch.randperm(total)
        for lo in range(0, total, cfg.minibatch):
            i = order[lo : lo + cfg.minibatch]
            lp = pilot.log_prob(pilot.mu(d["obs"][i]), d["act"][i])
            r = torch.exp(lp - d["logp"][i])
            pg = -torch.min(r * adv[i], r.clamp(1 - cfg.clip, 1 + cfg.clip) * adv[i]).mean()
            vl = (pilot.value(d["obs"][i]).squeeze(-1) - d["ret"][i]).pow(2).mean()
            opt.zero_grad()
            (pg + 0.5 * vl).backward()
            nn.utils.clip_grad_norm_(pilot.parameters(), 0.5)
            opt.step()


if __name__ == "__main__":
    cfg = Config()
    ap = argparse.ArgumentParser()
    ap.add_argument("--minibatch", type=int, default=cfg.minibatch)
    cfg.minibatch = ap.parse_args().minibatch
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    env = Thermals(cfg.gliders, cfg.seed)
    pilot = Pilot(env.dim_obs, env.dim_act)
    opt = torch.optim.Adam(pilot.parameters(), lr=cfg.lr, eps=1e-5)
    obs = env.reset()
    seen = 0
    for u in range(cfg.updates):
        obs, batch = collect(env, pilot, obs, cfg)
        improve(pilot, opt, batch, cfg)
        seen += cfg.span * cfg.gliders
        if u % 25 == 0:
            print(u, seen, round(float(batch["rew"].mean()), 4), flush=True)

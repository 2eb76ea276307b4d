import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Critic(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        self.q1, self.q2 = mlp(o + a, h, 1), mlp(o + a, h, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class TD3:
    def __init__(self, o, a, cfg):
        h = cfg["hidden"]
        self.cfg = cfg
        self.actor = mlp(o, h, a)
        self.critic = Critic(o, a, h)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.oa = torch.optim.Adam(self.actor.parameters(), lr=cfg["actor_lr"], fused=True)
        self.oc = torch.optim.Adam(self.critic.parameters(), lr=cfg["critic_lr"], fused=True)
        self.on = [*self.actor.parameters(), *self.critic.parameters()]
        self.tn = [*self.actor_t.parameters(), *self.critic_t.parameters()]
        self.n_upd = 0

    @torch.inference_mode()
    def act(self, obs, noise=0.0):
        a = torch.tanh(self.actor(torch.from_numpy(obs)))
        if noise:
            a = (a + noise * torch.randn_like(a)).clamp_(-1, 1)
        return a.numpy()

    def update(self, o, a, r, o2, d):
        g = self.cfg["gamma"]
        with torch.no_grad():
            eps = (torch.randn_like(a) * 0.2).clamp_(-0.5, 0.5)
            a2 = (torch.tanh(self.actor_t(o2)) + eps).clamp_(-1, 1)
            y = r + g * (1 - d) * torch.min(*self.critic_t(o2, a2))
        q1, q2 = self.critic(o, a)
        lc = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.oc.zero_grad(set_to_none=True)
        lc.backward()
        self.oc.step()
        self.n_upd += 1
        if self.n_upd % self.cfg["policy_delay"] == 0:
            for p in self.critic.parameters():
                p.requires_grad_(False)
            la = -self.critic(o, torch.tanh(self.actor(o)))[0].mean()
            self.oa.zero_grad(set_to_none=True)
            la.backward()
            self.oa.step()
            for p in self.critic.parameters():
                p.requires_grad_(True)
            with torch.no_grad():
                torch._foreach_lerp_(self.tn, self.on, self.cfg["tau"])
        return lc.detach()


class Ring:
    def __init__(self, cap, o, a):
        self.s = np.zeros((cap, o), np.float32); self.s2 = np.zeros((cap, o), np.float32)
        self.a = np.zeros((cap, a), np.float32); self.r = np.zeros(cap, np.float32); self.d = np.zeros(cap, np.float32)
        self.cap, self.p, self.n = cap, 0, 0

    def add(self, s, a, r, s2, d):
        i = (self.p + np.arange(len(r))) % self.cap
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, d
        self.p = (self.p + len(r)) % self.cap
        self.n = min(self.n + len(r), self.cap)

    def get(self, k):
        i = np.random.randint(0, self.n, k)
        return [torch.from_numpy(x[i]) for x in (self.s, self.a, self.r, self.s2, self.d)]

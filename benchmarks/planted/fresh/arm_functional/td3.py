import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(i, o, h=256):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, size):
        self.o, self.o2 = np.zeros((size, obs_dim), np.float32), np.zeros((size, obs_dim), np.float32)
        self.a = np.zeros((size, act_dim), np.float32)
        self.r = np.zeros((size, 1), np.float32)
        self.ptr, self.size, self.max = 0, 0, size

    def store(self, o, a, r, o2):
        i = self.ptr
        self.o[i], self.a[i], self.r[i], self.o2[i] = o, a, r, o2
        self.ptr, self.size = (i + 1) % self.max, min(self.size + 1, self.max)

    def sample(self, n):
        k = np.random.randint(0, self.size, n)
        return [torch.from_numpy(x[k]) for x in (self.o, self.a, self.r, self.o2)]


class TD3:
    def __init__(self, obs_dim, act_dim, gamma=0.98, tau=0.005, lr=1e-3, noise=0.2, clip=0.5, delay=2):
        self.pi = nn.Sequential(mlp(obs_dim, act_dim), nn.Tanh())
        self.q = nn.ModuleList([mlp(obs_dim + act_dim, 1) for _ in range(2)])
        self.pi_t, self.q_t = copy.deepcopy(self.pi), copy.deepcopy(self.q)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=lr, fused=True)
        self.q_opt = torch.optim.Adam(self.q.parameters(), lr=lr, fused=True)
        self.gamma, self.tau, self.noise, self.clip, self.delay = gamma, tau, noise, clip, delay
        self.n = 0

    @torch.no_grad()
    def act(self, obs):
        return self.pi(torch.from_numpy(obs)).numpy()

    def update(self, o, a, r, o2):
        self.n += 1
        with torch.no_grad():
            eps = (torch.randn_like(a) * self.noise).clamp_(-self.clip, self.clip)
            x2 = torch.cat([o2, (self.pi_t(o2) + eps).clamp_(-1, 1)], 1)
            y = r + self.gamma * torch.min(self.q_t[0](x2), self.q_t[1](x2))
        x = torch.cat([o, a], 1)
        loss = F.mse_loss(self.q[0](x), y) + F.mse_loss(self.q[1](x), y)
        self.q_opt.zero_grad()
        loss.backward()
        self.q_opt.step()
        if self.n % self.delay == 0:
            self.q.requires_grad_(False)
            lp = -self.q[0](torch.cat([o, self.pi(o)], 1)).mean()
            self.pi_opt.zero_grad()
            lp.backward()
            self.pi_opt.step()
            self.q.requires_grad_(True)
            with torch.no_grad():
                for net, tgt in ((self.pi, self.pi_t), (self.q, self.q_t)):
                    torch._foreach_lerp_(list(tgt.parameters()), list(net.parameters()), self.tau)
        return loss.detach()

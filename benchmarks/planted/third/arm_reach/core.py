import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(sizes):
    mods = []
    for i in range(len(sizes) - 1):
        mods.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            mods.append(nn.ReLU(inplace=True))
    return nn.Sequential(*mods)


class SquashedGaussianActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = mlp([obs_dim, *hidden, 2 * act_dim])

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        eps = torch.randn_like(mu)
        u = mu + log_std.exp() * eps
        logp = (-0.5 * eps * eps - log_std - 0.9189385 - 2 * (0.6931472 - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


class TwinQ(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.q1 = mlp([obs_dim + act_dim, *hidden, 1])
        self.q2 = mlp([obs_dim + act_dim, *hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class ReplayBuffer:
    def __init__(self, obs_dim, act_dim, size):
        self.obs = np.zeros((size, obs_dim), np.float32)
        self.obs2 = np.zeros((size, obs_dim), np.float32)
        self.act = np.zeros((size, act_dim), np.float32)
        self.rew = np.zeros(size, np.float32)
        self.done = np.zeros(size, np.float32)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, o, a, r, o2, d):
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i], self.obs2[i], self.done[i] = o, a, r, o2, d
        self.ptr = (i + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, n):
        idx = np.random.randint(0, self.size, n)
        return [torch.from_numpy(x[idx]) for x in (self.obs, self.act, self.rew, self.obs2, self.done)]

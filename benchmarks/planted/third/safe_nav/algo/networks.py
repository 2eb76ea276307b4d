import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(inp, hidden, out):
    return nn.Sequential(nn.Linear(inp, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.net = mlp(obs_dim, hidden, 2 * act_dim)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, -1)
        log_std = log_std.clamp(-5, 2)
        noise = torch.randn_like(mean)
        u = mean + log_std.exp() * noise
        logp = (-0.5 * noise.square() - log_std - 0.9189385).sum(-1)
        logp = logp - (2 * (0.6931472 - u - F.softplus(-2 * u))).sum(-1)
        return u.tanh(), logp


class Critic(nn.Module):
    """Twin reward critics and one cost critic on the same input."""

    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.q1 = mlp(obs_dim + act_dim, hidden, 1)
        self.q2 = mlp(obs_dim + act_dim, hidden, 1)
        self.qc = mlp(obs_dim + act_dim, hidden, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1), self.qc(x).squeeze(-1)

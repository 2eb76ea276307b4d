import math

import torch
from torch import nn


class Driver(nn.Module):
    """Recurrent Gaussian policy and value. Input [T, B, obs]; T is 1 while driving."""

    def __init__(self, obs_dim, act_dim, hidden=128):
        super().__init__()
        self.inp = nn.Linear(obs_dim, hidden)
        self.memory = nn.LSTM(hidden, hidden)
        self.out = nn.Linear(hidden, act_dim + 1)
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        nn.init.orthogonal_(self.out.weight, 0.1)

    def forward(self, obs, state=None):
        x, state = self.memory(torch.relu(self.inp(obs)), state)
        out = self.out(x)
        return out[..., :-1], out[..., -1], state

    def log_prob(self, mean, action):
        z = (action - mean) / self.log_std.exp()
        return -(0.5 * z * z + self.log_std + 0.5 * math.log(2 * math.pi)).sum(-1)

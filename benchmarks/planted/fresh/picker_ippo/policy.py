import torch
import torch.nn as nn
from torch.distributions import Categorical


def layer(i, o, gain=2 ** 0.5):
    lin = nn.Linear(i, o)
    nn.init.orthogonal_(lin.weight, gain)
    nn.init.zeros_(lin.bias)
    return lin


class SharedPolicy(nn.Module):
    """One network for all robots (parameter sharing)."""

    def __init__(self, obs_dim, n_act, hidden=64):
        super().__init__()
        self.pi = nn.Sequential(layer(obs_dim, hidden), nn.Tanh(), layer(hidden, hidden), nn.Tanh(), layer(hidden, n_act, 0.01))
        self.vf = nn.Sequential(layer(obs_dim, hidden), nn.Tanh(), layer(hidden, hidden), nn.Tanh(), layer(hidden, 1, 1.0))

    def act(self, obs):
        dist = Categorical(logits=self.pi(obs))
        a = dist.sample()
        return a, dist.log_prob(a), self.vf(obs).squeeze(-1)

    def evaluate(self, obs, act):
        dist = Categorical(logits=self.pi(obs))
        return dist.log_prob(act), dist.entropy(), self.vf(obs).squeeze(-1)

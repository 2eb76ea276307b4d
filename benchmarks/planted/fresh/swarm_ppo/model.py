import math

import torch
import torch.nn as nn


class GaussianAC(nn.Module):
    def __init__(self, o, a, width):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(o, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, a))
        self.vf = nn.Sequential(nn.Linear(o, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.full((a,), -0.7))
        nn.init.orthogonal_(self.pi[-1].weight, 0.01)

    def logp(self, mu, a):
        return (-0.5 * ((a - mu) / self.log_std.exp()).pow(2) - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    @torch.inference_mode()
    def act(self, o):
        mu = self.pi(o)
        a = mu + self.log_std.exp() * torch.randn_like(mu)
        return a.numpy(), self.logp(mu, a).numpy(), self.vf(o).squeeze(-1).numpy()

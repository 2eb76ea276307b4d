"""Ensemble of small networks standing in for the reactor simulator."""
import torch
from torch import nn


class Surrogate(nn.Module):
    def __init__(self, n_state, n_action, ensemble=5, hidden=128, seed=0):
        super().__init__()
        g = torch.Generator().manual_seed(seed)

        def w(i, o):
            return nn.Parameter(torch.randn(ensemble, i, o, generator=g) * (1.0 / i) ** 0.5)

        self.w1, self.b1 = w(n_state + n_action, hidden), nn.Parameter(torch.zeros(ensemble, 1, hidden))
        self.w2, self.b2 = w(hidden, hidden), nn.Parameter(torch.zeros(ensemble, 1, hidden))
        self.w3, self.b3 = w(hidden, n_state), nn.Parameter(torch.zeros(ensemble, 1, n_state))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, s, a):
        """s [ensemble, batch, n_state], a [ensemble, batch, n_action] -> next state."""
        x = torch.cat([s, a], -1)
        x = torch.tanh(torch.baddbmm(self.b1, x, self.w1))
        x = torch.tanh(torch.baddbmm(self.b2, x, self.w2))
        return 0.95 * s + 0.1 * torch.tanh(torch.baddbmm(self.b3, x, self.w3))

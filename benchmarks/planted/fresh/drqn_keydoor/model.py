import torch
import torch.nn as nn


class RecurrentQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.hidden = hidden
        self.enc = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, n_actions)

    def initial(self, batch=1):
        return torch.zeros(1, batch, self.hidden)

    def forward(self, x, h):
        """x: (batch, obs_dim), one time step"""
        z = self.enc(x).unsqueeze(1)
        z, h = self.gru(z, h)
        return self.head(z.squeeze(1)), h

    def unroll(self, seq):
        """seq: (batch, time, obs_dim) -> q values (batch, time, n_actions)"""
        h = self.initial(seq.shape[0])
        qs = []
        for t in range(seq.shape[1]):
            q, h = self(seq[:, t], h)
            qs.append(q)
        return torch.stack(qs, dim=1)

import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.Linear(obs_dim, hidden)
        self.lstm = nn.LSTMCell(hidden, hidden)
        self.heads = nn.Linear(hidden, n_actions + 1)

    def initial_state(self, n):
        return torch.zeros(n, self.hidden), torch.zeros(n, self.hidden)

    def forward(self, obs, state):
        hx, cx = self.lstm(F.elu(self.encoder(obs)), state)
        out = self.heads(hx)
        return out[:, :-1], out[:, -1], (hx, cx)

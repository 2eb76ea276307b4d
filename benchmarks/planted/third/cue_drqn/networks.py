import torch
from torch import nn


class RecurrentQ(nn.Module):
    """Encoder, LSTM, dueling head. Takes one step [B, obs] or a sequence [B, T, obs]."""

    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.advantage = nn.Linear(hidden, n_actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs, state=None):
        single = obs.dim() == 2
        x = self.encoder(obs)
        x, state = self.lstm(x.unsqueeze(1) if single else x, state)
        if single:
            x = x.squeeze(1)
        adv = self.advantage(x)
        return self.value(x) + adv - adv.mean(-1, keepdim=True), state

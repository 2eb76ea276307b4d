import torch
import torch.nn as nn


class RecurrentActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, embed, hidden):
        super().__init__()
        self.hidden = hidden
        self.encoder = nn.Sequential(nn.Linear(obs_dim, embed), nn.Tanh())
        self.rnn = nn.LSTM(embed, hidden, batch_first=True)
        self.actor = nn.Linear(hidden, n_actions)
        self.critic = nn.Linear(hidden, 1)

    def initial_state(self, n):
        return torch.zeros(1, n, self.hidden), torch.zeros(1, n, self.hidden)

    def step(self, obs, state):
        """obs (B, D) -> logits (B, A), value (B,), state"""
        z = self.encoder(obs).unsqueeze(1)
        z, state = self.rnn(z, state)
        z = z.squeeze(1)
        return self.actor(z), self.critic(z).squeeze(-1), state

    def unroll(self, obs, state):
        """obs (B, T, D) -> logits (B, T, A), values (B, T)"""
        logits, values = [], []
        for t in range(obs.shape[1]):
            l, v, state = self.step(obs[:, t], state)
            logits.append(l)
            values.append(v)
        return torch.stack(logits, 1), torch.stack(values, 1)

import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, n_actions)
        self.v = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, obs):
        h = self.body(obs)
        return F.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)

    @torch.no_grad()
    def act(self, obs):
        logp, v = self(obs)
        a = torch.multinomial(logp.exp(), 1)
        return a.squeeze(-1), logp.gather(1, a).squeeze(-1), v

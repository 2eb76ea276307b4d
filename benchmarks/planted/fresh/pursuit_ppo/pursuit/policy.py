import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedPolicy(nn.Module):
    """one set of weights for all wolves"""

    def __init__(self, obs_dim, n_actions, hidden):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, n_actions))
        self.critic = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    @torch.no_grad()
    def act(self, obs):
        logp = F.log_softmax(self.actor(obs), -1)
        a = torch.multinomial(logp.exp(), 1)
        return a.squeeze(-1), logp.gather(-1, a).squeeze(-1), self.critic(obs).squeeze(-1)

    def evaluate(self, obs, act):
        logp = F.log_softmax(self.actor(obs), -1)
        ent = -(logp.exp() * logp).sum(-1)
        return logp.gather(-1, act.unsqueeze(-1)).squeeze(-1), ent, self.critic(obs).squeeze(-1)

import torch
from torch import nn


class MultiHeadPolicy(nn.Module):
    """One categorical head per item, a common body and a value head."""

    def __init__(self, obs_dim, items, levels, hidden):
        super().__init__()
        layers, d = [], obs_dim
        for h in hidden:
            layers += [nn.Linear(d, h), nn.ELU()]
            d = h
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(d, items * levels)
        self.value = nn.Linear(d, 1)
        self.shape = (items, levels)

    def forward(self, obs):
        h = self.body(obs)
        logits = self.head(h).unflatten(-1, self.shape)
        return logits.log_softmax(-1), self.value(h).squeeze(-1)

    @torch.no_grad()
    def sample(self, obs):
        logp, value = self(obs)
        gumbel = -torch.empty_like(logp).exponential_().log()
        action = (logp + gumbel).argmax(-1)
        return action, self.joint(logp, action), value

    @staticmethod
    def joint(logp, action):
        return logp.gather(-1, action.unsqueeze(-1)).squeeze(-1).sum(-1)

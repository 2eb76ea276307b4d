import torch
from torch import nn
from torch.distributions import Categorical


class TeamPolicy(nn.Module):
    """All robots share the weights."""

    def __init__(self, obs_dim, actions, width=96):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.pi = nn.Linear(width, actions)
        self.v = nn.Linear(width, 1)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)

    @torch.no_grad()
    def act(self, obs):
        """What one robot does, given its own observation."""
        dist, value = self(torch.from_numpy(obs).unsqueeze(0))
        action = dist.sample()
        return action.item(), dist.log_prob(action).item(), value.item()

    @torch.no_grad()
    def values(self, obs):
        return self(torch.from_numpy(obs))[1].numpy()

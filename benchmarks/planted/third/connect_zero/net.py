import torch
from torch import nn


class PolicyValueNet(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(84, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.policy = nn.Linear(width, 7)
        self.value = nn.Linear(width, 1)

    @staticmethod
    def encode(boards):
        """[n, 6, 7] boards seen from the side to move -> [n, 84] own and other stones."""
        x = torch.from_numpy(boards).flatten(1)
        return torch.cat([(x > 0).float(), (x < 0).float()], dim=1)

    def forward(self, x):
        h = self.body(x)
        return self.policy(h), torch.tanh(self.value(h)).squeeze(-1)

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class ResNet(nn.Module):
    def __init__(self, inp, out, width, blocks):
        super().__init__()
        self.stem = nn.Linear(inp, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(blocks)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, out)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x))))


class Actor(ResNet):
    def forward(self, obs):
        return super().forward(obs).tanh()


class Critic(ResNet):
    def __init__(self, obs_dim, act_dim, width, blocks):
        super().__init__(obs_dim + act_dim, 1, width, blocks)

    def forward(self, obs, act):
        return super().forward(torch.cat([obs, act], -1)).squeeze(-1)

"""Networks."""

import itertools
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GridEncoder(nn.Module):
    """Two convolutions over [batch, rows, columns, planes] bytes; gives [batch, features]."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        rows, columns, planes = shape
        self.convolutions = nn.Sequential(
            nn.Conv2d(planes, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.ReLU()
        )
        self.features = 32 * ((rows + 1) // 2) * ((columns + 1) // 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.convolutions(obs.permute(0, 3, 1, 2).to(torch.float32)).flatten(1)  # type: ignore[no-any-return]


class QNet(nn.Module):
    """State [batch, ...] to action values [batch, actions]. Grids are convolved first; `dueling` splits value and advantage."""

    def __init__(self, obs_shape: Sequence[int], actions: int, hidden: Sequence[int], dueling: bool = False) -> None:
        super().__init__()
        grid = len(obs_shape) == 3
        self.encoder = GridEncoder(obs_shape) if grid else nn.Flatten()
        inputs = self.encoder.features if isinstance(self.encoder, GridEncoder) else prod(obs_shape)
        self.trunk = nn.Sequential(mlp([inputs, *hidden]), nn.ReLU())
        self.advantage = nn.Linear(hidden[-1], actions)
        self.value = nn.Linear(hidden[-1], 1) if dueling else None

    def forward(self, obs: Tensor) -> Tensor:
        x = self.trunk(self.encoder(obs))
        q = self.advantage(x)
        if self.value is not None:
            q = self.value(x) + q - q.mean(dim=1, keepdim=True)
        return q  # type: ignore[no-any-return]

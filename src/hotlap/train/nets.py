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
        encoded = self.encoder(obs)
        x = self.trunk(encoded if encoded.is_floating_point() else encoded.to(torch.float32))
        q = self.advantage(x)
        if self.value is not None:
            q = self.value(x) + q - q.mean(dim=1, keepdim=True)
        return q  # type: ignore[no-any-return]


class Policy(nn.Module):
    """State [batch, ...] to what decides the action [batch, outputs] and the state's value [batch].

    `shared`: one trunk for both, else one each. `memory`: "lstm" or "gru" cells after the (shared) trunk; then `forward` takes
    and returns their state, [batch, units]. `deviations`: so many learned logarithms of deviations end the outputs.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        outputs: int,
        hidden: Sequence[int],
        activation: str = "tanh",
        shared: bool = False,
        memory: str = "none",
        deviations: int = 0,
    ) -> None:
        super().__init__()
        self.encoder = GridEncoder(obs_shape) if len(obs_shape) == 3 else nn.Flatten() if len(obs_shape) > 1 else None
        inputs = self.encoder.features if isinstance(self.encoder, GridEncoder) else prod(obs_shape)
        kind = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]
        trunks = [_trunk([inputs, *hidden], kind) for _ in range(1 if shared or memory != "none" else 2)]
        self.actor = trunks[0]
        self.critic = trunks[1] if len(trunks) > 1 else None
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[memory](hidden[-1], hidden[-1]) if memory != "none" else None
        self.action = orthogonal(nn.Linear(hidden[-1], outputs - deviations), 0.01)
        self.value = orthogonal(nn.Linear(hidden[-1], 1), 1.0)
        self.log_std = nn.Parameter(torch.zeros(deviations)) if deviations else None

    def forward(self, obs: Tensor, memory: tuple[Tensor, ...] = ()) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        x = obs if self.encoder is None else self.encoder(obs)
        features = self.actor(x)
        if self.cell is not None:
            memory = memory or self.initial(len(obs))
            found = self.cell(features, memory if len(memory) == 2 else memory[0])
            memory = found if isinstance(found, tuple) else (found,)
            features = memory[0]
        output = self.action(features)
        value = self.value(features if self.critic is None else self.critic(x))[:, 0]
        if self.log_std is not None:
            output = torch.cat((output, self.log_std.expand(len(output), -1)), -1)
        return output, value, memory

    def initial(self, batch: int) -> tuple[Tensor, ...]:
        """The memory at the beginning of an episode."""
        if self.cell is None:
            return ()
        zeros = torch.zeros(batch, self.cell.hidden_size, device=self.value.weight.device)
        return (zeros, zeros.clone()) if isinstance(self.cell, nn.LSTMCell) else (zeros,)


def _trunk(sizes: Sequence[int], activation: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [orthogonal(nn.Linear(inputs, outputs), 2**0.5), activation()]
    return nn.Sequential(*layers)


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """Start with orthogonal weights and no bias, as PPO likes it."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer

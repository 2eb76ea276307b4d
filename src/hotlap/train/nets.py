"""Networks."""

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


SMALLEST_IMAGE = 36  # rows and columns; what is smaller is a board


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


class PixelEncoder(nn.Module):
    """Three convolutions over images, as in the Nature DQN (2015); channels are the first or the last dimension."""

    def __init__(self, shape: Sequence[int], scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.channels_last = shape[0] >= SMALLEST_IMAGE
        first = (shape[2], shape[0], shape[1]) if self.channels_last else tuple(shape)
        layers = [nn.Conv2d(first[0], 32, 8, stride=4), nn.Conv2d(32, 64, 4, stride=2), nn.Conv2d(64, 64, 3)]
        self.convolutions = nn.Sequential(*itertools.chain(*((layer, nn.ReLU()) for layer in layers)))
        with torch.no_grad():
            self.features = self.convolutions(torch.zeros(1, *first)).numel()

    def forward(self, obs: Tensor) -> Tensor:
        images = (obs.permute(0, 3, 1, 2) if self.channels_last else obs).to(torch.float32)
        return self.convolutions(images * self.scale).flatten(1)  # type: ignore[no-any-return]


def pixel_scale(space: Any) -> float:
    """The factor that scales the bytes of images to 0..1."""
    return 1 / 255 if space.dtype == np.uint8 and space.high.max() == 255 else 1.0


def encoder_of(shape: Sequence[int], scale: float) -> "GridEncoder | PixelEncoder":
    """Convolutions that suit a small board or an image."""
    return PixelEncoder(shape, scale) if sorted(shape)[1] >= SMALLEST_IMAGE else GridEncoder(shape)


class QNet(nn.Module):
    """Observations [batch, ...] to Q-values [batch, actions]. Grids are convolved first; `dueling`: two heads."""

    def __init__(
        self, obs_shape: Sequence[int], actions: int, hidden: Sequence[int], dueling: bool = False, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.encoder = encoder_of(obs_shape, scale) if len(obs_shape) == 3 else nn.Flatten()
        inputs = prod(obs_shape) if isinstance(self.encoder, nn.Flatten) else self.encoder.features
        self.trunk = nn.Sequential(mlp([inputs, *hidden]), nn.ReLU())
        self.advantage = nn.Linear(hidden[-1], actions)
        self.value = nn.Linear(hidden[-1], 1) if dueling else None

    def forward(self, obs: Tensor) -> Tensor:
        encoded = self.encoder(obs)
        x = self.trunk(encoded.to(torch.float32))
        q = self.advantage(x)
        if self.value is not None:
            q = self.value(x) + q - q.mean(dim=1, keepdim=True)
        return q  # type: ignore[no-any-return]


Memory = tuple[Tensor, ...]  # of an agent; a row per environment, zeros at the beginning of an episode


class Cell(nn.Module):
    """A memory of LSTM or GRU cells."""

    def __init__(self, kind: str, units: int) -> None:
        super().__init__()
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[kind](units, units)

    def initial(self, batch: int) -> Memory:
        zeros = torch.zeros(batch, self.cell.hidden_size, device=self.cell.weight_hh.device)
        return (zeros, zeros.clone()) if isinstance(self.cell, nn.LSTMCell) else (zeros,)

    def forward(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step: features [batch, units]."""
        state = self.cell(features, memory if len(memory) == 2 else memory[0])
        memory = state if isinstance(state, tuple) else (state,)
        return memory[0], memory

    def sequence(self, features: Tensor, done: Tensor, memory: Memory) -> Tensor:
        """Many steps: features [time, batch, units], the memory cleared after steps that ended an episode."""
        alive = (1.0 - done)[..., None]
        outputs = []
        for t, now in enumerate(features):
            output, memory = self(now, memory)
            memory = tuple(part * alive[t] for part in memory)
            outputs.append(output)
        return torch.stack(outputs)


class Attention(nn.Module):
    """A memory by attention: the present attends to the agent's last `context` observations of this episode.

    The memory holds the features of the past and whether each is there.
    """

    def __init__(self, units: int, context: int, heads: int = 4) -> None:
        super().__init__()
        self.context, self.units, self.heads = context, units, heads if units % heads == 0 else 1
        self.project = nn.Linear(units, 3 * units)
        self.out = nn.Linear(units, units)
        self.distance = nn.Parameter(torch.zeros(self.heads, context))

    def initial(self, batch: int) -> Memory:
        device = self.out.weight.device
        past = torch.zeros(batch, self.context - 1, self.units, device=device)
        return past, torch.zeros(batch, self.context - 1, device=device)

    def forward(self, features: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """One step: features [batch, units]."""
        past, there = memory
        output = self.sequence(features[None], torch.zeros(1, len(features), device=features.device), memory)[0]
        past = torch.cat((past, features[:, None]), 1)[:, 1:]
        return output, (past, torch.cat((there, torch.ones_like(there[:, :1])), 1)[:, 1:])

    def sequence(self, features: Tensor, done: Tensor, memory: Memory) -> Tensor:
        """Many steps at once: features [time, batch, units]."""
        steps, batch, _ = features.shape
        past, there = memory
        seen = torch.cat((past.transpose(0, 1), features))
        query, key, value = self.project(seen).view(len(seen), batch, 3, self.heads, -1).unbind(2)
        key, value = (part.unfold(0, self.context, 1) for part in (key, value))  # [time, batch, heads, width, context]
        score = torch.einsum("tbhd,tbhdk->tbhk", query[self.context - 1 :], key) * key.shape[3] ** -0.5 + self.distance
        # Of the same episode: as many ends before it as before the present.
        ends = done.cumsum(0)
        before = torch.cat((torch.zeros_like(done[:1]), ends[:-1]))
        episode = torch.cat((torch.where(there > 0, 0.0, -1.0).t(), before)).unfold(0, self.context, 1)
        score = score.masked_fill((episode != before[..., None])[:, :, None], -torch.inf)
        attended = torch.einsum("tbhk,tbhdk->tbhd", score.softmax(-1), value).reshape(steps, batch, -1)
        return torch.tanh(features + self.out(attended))


class Policy(nn.Module):
    """Observations [batch, ...] to the parameters of the action distribution [batch, outputs] and to values [batch].

    `shared`: one trunk for both, else one each. `memory`: "lstm", "gru" or "attention" after the (shared) trunk; `forward` then
    takes and returns its state, and `sequence` runs over whole sequences. `deviations`: the outputs end with this many
    learned log standard deviations. `scale`: factor applied to images.
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
        context: int = 8,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.encoder: nn.Module | None = None
        if len(obs_shape) == 3:
            self.encoder = encoder_of(obs_shape, scale)
        elif len(obs_shape) > 1:
            self.encoder = nn.Flatten()
        inputs = self.encoder.features if isinstance(self.encoder, GridEncoder | PixelEncoder) else prod(obs_shape)
        kind = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]
        trunks = [_trunk([inputs, *hidden], kind) for _ in range(1 if shared or memory != "none" else 2)]
        self.actor = trunks[0]
        self.critic = trunks[1] if len(trunks) > 1 else None
        self.memory: Cell | Attention | None = None
        if memory != "none":
            self.memory = Attention(hidden[-1], context) if memory == "attention" else Cell(memory, hidden[-1])
        self.action = orthogonal(nn.Linear(hidden[-1], outputs - deviations), 0.01)
        self.value = orthogonal(nn.Linear(hidden[-1], 1), 1.0)
        self.log_std = nn.Parameter(torch.zeros(deviations)) if deviations else None

    def forward(self, obs: Tensor, memory: Memory = ()) -> tuple[Tensor, Tensor, Memory]:
        x = self._encode(obs)
        features = self.actor(x)
        if self.memory is not None:
            features, memory = self.memory(features, memory or self.initial(len(obs)))
        return *self._heads(features, x), memory

    def sequence(self, obs: Tensor, done: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Observations [time, batch, ...] of whole sequences to outputs and values of their rows, [time * batch, ...]."""
        assert self.memory is not None
        x = self._encode(obs.flatten(0, 1))
        features = self.actor(x).view(*done.shape, -1)
        return self._heads(self.memory.sequence(features, done, memory).flatten(0, 1), x)

    def _encode(self, obs: Tensor) -> Tensor:
        x = obs if self.encoder is None else self.encoder(obs)
        return x if x.is_floating_point() else x.to(torch.float32)

    def _heads(self, features: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        output = self.action(features).float()
        value = self.value(features if self.critic is None else self.critic(x))[:, 0].float()
        if self.log_std is not None:
            output = torch.cat((output, self.log_std.expand(len(output), -1)), -1)
        return output, value

    def initial(self, batch: int) -> Memory:
        """The memory at the beginning of an episode."""
        return () if self.memory is None else self.memory.initial(batch)


def _trunk(sizes: Sequence[int], activation: type[nn.Module]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [orthogonal(nn.Linear(inputs, outputs), 2**0.5), activation()]
    return nn.Sequential(*layers)


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """Orthogonal weights and zero bias, PPO's usual initialization."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer

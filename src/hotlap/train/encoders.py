"""Encoders: from observations as environments write them to the features that a network's layers take.

Every encoder knows how many features it gives. Those without parameters may be followed by layers that are computed by hand.
"""

import itertools
from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from hotlap.envs.spec import EnvSpec

SMALLEST_IMAGE = 36  # rows and columns; what is smaller is a board


class Encoder(nn.Module):
    """Observations [batch, ...] to float32 [batch, features]."""

    features: int

    @property
    def learns(self) -> bool:
        """Whether it has parameters."""
        return any(True for _ in self.parameters())


class Flatten(Encoder):
    """Numbers of any type and shape as a vector."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.features = prod(shape)

    def forward(self, obs: Tensor) -> Tensor:
        return obs.flatten(1).to(torch.float32)


class Sparse(Encoder):
    """Rows of indices (see `EnvSpec.sparse`) as the vectors of zeros and ones that they stand for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.features = size

    def forward(self, obs: Tensor) -> Tensor:
        # Unused places of a row hold `size`: they all end in one more column, which is left out.
        ones = torch.zeros(len(obs), self.features + 1, device=obs.device)
        return ones.scatter_(1, obs[:, 1:].to(torch.int64), 1.0)[:, :-1]


class Indices(Encoder):
    """Rows of indices as they are, for a first layer that takes them (see `sparse`)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.features = size

    def forward(self, obs: Tensor) -> Tensor:
        return obs


class GridEncoder(Encoder):
    """Two convolutions over [batch, rows, columns, planes] bytes."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        rows, columns, planes = shape
        self.convolutions = nn.Sequential(
            nn.Conv2d(planes, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.ReLU()
        )
        self.features = 32 * ((rows + 1) // 2) * ((columns + 1) // 2)

    def forward(self, obs: Tensor) -> Tensor:
        return self.convolutions(obs.permute(0, 3, 1, 2).to(torch.float32)).flatten(1)  # type: ignore[no-any-return]


class PixelEncoder(Encoder):
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


def vector_encoder(spec: EnvSpec) -> Encoder:
    """All numbers of an observation as one vector."""
    return Sparse(spec.obs_size) if spec.obs_size else Flatten(spec.obs_shape)


def feedforward_encoder(spec: EnvSpec) -> Encoder:
    """The same for dense layers alone, the first of which can take indices."""
    return Indices(spec.obs_size) if spec.obs_size else Flatten(spec.obs_shape)


def auto_encoder(spec: EnvSpec) -> Encoder:
    """Convolutions that suit a small board or an image; other observations as a vector."""
    if len(spec.obs_shape) != 3:
        return vector_encoder(spec)
    is_image = sorted(spec.obs_shape)[1] >= SMALLEST_IMAGE
    return PixelEncoder(spec.obs_shape, spec.obs_scale) if is_image else GridEncoder(spec.obs_shape)

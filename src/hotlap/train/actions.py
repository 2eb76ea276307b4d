"""Action distributions: sample, log-probability and entropy, from a network's output.

Plain functions of tensors, without the checks and caches of `torch.distributions`, which cost more than the arithmetic on
small batches. `mask` is true where a discrete action is legal.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.envs.spec import Bound, EnvSpec

_FEW = 1024  # elements, below which the number of operations dominates the cost
_BELOW_ONE = 1 - 2**-22  # keeps a point below the last edge
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Discrete:
    """One choice, or several at once (multi-discrete): `sizes` has the number of actions of each."""

    sizes: tuple[int, ...]
    env_shape: tuple[int, ...] = ()  # of a row's action, as the environment takes it

    @property
    def outputs(self) -> int:
        return sum(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        return () if len(self.sizes) == 1 else (len(self.sizes),)

    dtype = torch.int64
    deviations = 0

    def sample(self, logits: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Actions [B] or [B, k] and their log-probabilities [B]."""
        actions, chosen = [], []
        for log_prob in self._parts(logits, mask):
            action = _sample(log_prob.exp(), generator)
            actions.append(action)
            chosen.append(log_prob.gather(-1, action[:, None])[:, 0])
        return (torch.stack(actions, -1) if self.shape else actions[0]), _sum(chosen)

    def sample_action(self, logits: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        """The actions that `sample` gives, of a single choice, without the log-probabilities: cheaper."""
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        return _sample(torch.softmax(logits, -1), generator)

    def greedy(self, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        actions = [log_prob.argmax(-1) for log_prob in self._parts(logits, mask)]
        return torch.stack(actions, -1) if self.shape else actions[0]

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the actions [B] and the entropy [B]."""
        parts = self._parts(logits, mask)
        entropy = [-(log_prob.exp() * log_prob.clamp(min=-1e9)).sum(-1) for log_prob in parts]
        return self._chosen(parts, action), _sum(entropy)

    def log_prob(self, logits: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        """The log-probabilities of `evaluate`, without the entropy."""
        return self._chosen(self._parts(logits, mask), action)

    def kl(self, teacher: Tensor, logits: Tensor, mask: Tensor | None = None) -> Tensor:
        """The KL divergence [B] of these logits from those of a teacher: how much of what it does would surprise."""
        pairs = zip(self._parts(teacher, mask), self._parts(logits, mask), strict=True)
        return _sum([(p.exp() * (p.clamp(min=-1e9) - q.clamp(min=-1e9))).sum(-1) for p, q in pairs])

    def to_env(self, action: Tensor) -> NDArray[Any]:
        """As environments take them."""
        host: NDArray[Any] = action.cpu().numpy()
        return host.reshape(len(host), *self.env_shape)

    def _chosen(self, parts: list[Tensor], action: Tensor) -> Tensor:
        columns = action.unbind(-1) if self.shape else (action,)
        return _sum([log_prob.gather(-1, column[:, None])[:, 0] for log_prob, column in zip(parts, columns, strict=True)])

    def _parts(self, logits: Tensor, mask: Tensor | None) -> list[Tensor]:
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        parts = (logits,) if len(self.sizes) == 1 else torch.split(logits, list(self.sizes), -1)
        return [torch.log_softmax(part, -1) for part in parts]


@dataclass(frozen=True)
class Gaussian:
    """Continuous actions [B, k]: the network gives the means, then the log standard deviations."""

    size: int
    env_shape: tuple[int, ...] = ()  # of a row's action, as the environment takes it
    low: Bound = -math.inf
    high: Bound = math.inf

    @property
    def outputs(self) -> int:
        return 2 * self.size

    @property
    def deviations(self) -> int:
        return self.size

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    dtype = torch.float32

    def sample(self, output: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, log_std = output.chunk(2, -1)
        noise = torch.empty_like(mean).normal_(generator=generator)
        return mean + log_std.exp() * noise, -(0.5 * noise**2 + log_std + _LOG_SQRT_2PI).sum(-1)

    def sample_action(self, output: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        return self.sample(output, generator, mask)[0]

    def greedy(self, output: Tensor, mask: Tensor | None = None) -> Tensor:
        return output.chunk(2, -1)[0]

    def evaluate(self, output: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, log_std = output.chunk(2, -1)
        z = (action - mean) * (-log_std).exp()
        return -(0.5 * z**2 + log_std + _LOG_SQRT_2PI).sum(-1), (log_std + 0.5 + _LOG_SQRT_2PI).sum(-1)

    def log_prob(self, output: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.evaluate(output, action, mask)[0]

    def kl(self, teacher: Tensor, output: Tensor, mask: Tensor | None = None) -> Tensor:
        """The KL divergence [B] of this distribution from that of a teacher."""
        (wanted, wanted_log_std), (mean, log_std) = teacher.chunk(2, -1), output.chunk(2, -1)
        ratio = (2 * (wanted_log_std - log_std)).exp()
        return (log_std - wanted_log_std + 0.5 * (ratio + ((wanted - mean) * (-log_std).exp()) ** 2 - 1)).sum(-1)

    def to_env(self, action: Tensor) -> NDArray[Any]:
        """As environments take them: within their bounds."""
        host: NDArray[Any] = np.clip(action.cpu().numpy(), *self._bounds)
        return host.reshape(len(host), *self.env_shape)

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)


Actions = Discrete | Gaussian


def _sample(probability: Tensor, generator: torch.Generator) -> Tensor:
    """Sample a column of each row of probabilities [B, n]; never one of probability 0."""
    # The first of exponential arrivals at these rates: fewer operations, more random numbers, and no sums along short rows, at
    # which a GPU is slow.
    if probability.is_cuda or probability.numel() < _FEW:
        return probability.div_(torch.empty_like(probability).exponential_(generator=generator)).argmax(-1)
    edges = probability.cumsum(-1)
    point = torch.rand(len(probability), 1, generator=generator, device=probability.device).mul_(edges[:, -1:] * _BELOW_ONE)
    return (edges <= point).sum(-1)


def _sum(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)


def actions_of(spec: EnvSpec) -> Actions:
    """The action distribution of environments of this declaration."""
    if spec.action_sizes:
        return Discrete(spec.action_sizes, spec.action_shape)
    return Gaussian(math.prod(spec.action_shape), spec.action_shape, spec.action_low, spec.action_high)

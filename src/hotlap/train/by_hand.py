"""PPO's gradient by hand, for policies of dense layers, or LSTM cells after them, with one discrete action.

On small networks autograd, and an optimizer that walks over parameters, take several times longer than the arithmetic. Here the
parameters and their gradients are one vector each, of which every layer has its views; a minibatch is some sixty plain
operations; clipping and Adam see one vector. The result equals autograd's on `ppo.ppo_loss` within float tolerance, by test.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.train.configs import PPOConfig
from hotlap.train.minibatch import Losses, Minibatch


class HandWrittenPolicy(Protocol):
    """Passes through a network."""

    cached_rows: int  # that are best computed at once: their activations stay in a CPU's cache until they are used again

    def forward(self, batch: Minibatch) -> tuple[Tensor, Tensor]:
        """Logits [B, actions] and values [B]; keeps what `backward` needs."""

    def backward(self, logits: Tensor, values: Tensor) -> None:
        """Put the gradient of the parameters in its place, from those of the logits and of the values."""


class ByHand:
    """A `gradients.Gradient`."""

    def __init__(self, policy: HandWrittenPolicy, config: PPOConfig) -> None:
        self.policy, self._config = policy, config
        self.modules: Mapping[str, nn.Module] = {}

    def part_size(self, size: int, rows: int) -> int:
        parts = -(-size * rows // self.policy.cached_rows)
        return size // parts if size % parts == 0 else size

    def prepare(self, batch: Minibatch, rows: int) -> Minibatch:
        limit = torch.where(batch.advantage >= 0, 1 + self._config.clip, 1 - self._config.clip)
        return batch._replace(advantage_over_size=batch.advantage / rows, ratio_limit=limit)

    @torch.no_grad()
    def compute(self, batch: Minibatch, entropy_weight: Tensor, clock: StageClock, report: bool) -> Losses | None:
        with clock.stage(stages.LOSS):
            logits, value = self.policy.forward(batch)
            to_logits, to_value, losses = loss_gradient(self._config, batch, logits, value, entropy_weight, report)
        with clock.stage(stages.BACKWARD):
            self.policy.backward(to_logits, to_value)
        return losses

    def training(self, seed: int) -> AbstractContextManager[None]:
        return nullcontext()  # dense layers and cells have one mode


def loss_gradient(
    config: PPOConfig, batch: Minibatch, logits: Tensor, value: Tensor, entropy_weight: Tensor, report: bool
) -> tuple[Tensor, Tensor, Losses | None]:
    """Of `ppo.ppo_loss`: its gradient with respect to the logits [B, actions] and the values [B]; its parts, if asked for."""
    advantage, limit = batch.advantage_over_size, batch.ratio_limit
    assert advantage is not None and limit is not None
    size = len(value)
    if batch.mask is not None:
        logits = logits.masked_fill(~batch.mask, -torch.inf)
    log_prob = torch.log_softmax(logits, -1)
    probability = log_prob.exp()
    action = batch.action[:, None]
    log_ratio = log_prob.gather(-1, action)[:, 0] - batch.log_prob
    ratio = log_ratio.exp()
    # The surrogate follows the ratio, unless that has moved too far the way the advantage pushes it.
    unclipped = (ratio - limit).mul_(advantage) <= 0
    slope = (ratio * advantage).mul_(unclipped)[:, None]
    to_logits = probability * slope
    to_logits.scatter_add_(1, action, -slope)
    entropy, counts = None, bool(config.entropy or config.entropy_end)
    if counts or report:
        weighted = probability * log_prob.clamp(min=-1e9)
        entropy = -weighted.sum(-1, keepdim=True)
        if counts:
            to_logits += (weighted + probability * entropy) * (entropy_weight / size)
    error = value - batch.return_
    to_value = error * (config.value_weight / size)
    if config.value_clip:
        moved = value - batch.value
        near = batch.value + moved.clamp(-config.value_clip, config.value_clip) - batch.return_
        further = error**2 >= near**2
        inside = moved.abs() <= config.value_clip
        to_value = torch.where(further, to_value, near * inside * (config.value_weight / size))
        error = torch.where(further, error, near)
    if entropy is None or not report:
        return to_logits, to_value, None
    policy_loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - config.clip, 1 + config.clip)).sum()
    value_loss, mean_entropy = 0.5 * (error**2).mean(), entropy.mean()
    losses = Losses(
        loss=policy_loss + config.value_weight * value_loss - entropy_weight * mean_entropy,
        policy_loss=policy_loss,
        value_loss=value_loss,
        entropy=mean_entropy,
        kl=(ratio - 1 - log_ratio).mean(),
        clipped=((ratio - 1).abs() > config.clip).float().mean(),
    )
    return to_logits, to_value, losses

"""What PPO learns from, and what comes of it: the rows of a minibatch, and the parts of their loss."""

from typing import NamedTuple

import torch
from torch import Tensor

from hotlap.train.memory import Memory


class Minibatch(NamedTuple):
    """Rows to learn from, [B, ...]. With a memory they are whole sequences: row t * columns + i is step t of sequence i."""

    obs: Tensor  # with a memory [time, columns, ...]
    action: Tensor
    log_prob: Tensor  # of the action, when it was taken
    value: Tensor  # of the state, then
    advantage: Tensor  # normalized, if asked for
    return_: Tensor  # what the value should be
    mask: Tensor | None = None
    weight: Tensor | None = None  # 0 for rows that do not count
    done: Tensor | None = None  # of sequences, where it is asked for: [time, columns]
    advantage_over_size: Tensor | None = None  # these two are computed ahead where the gradient is computed by hand
    ratio_limit: Tensor | None = None
    teacher: Tensor | None = None  # outputs of the teacher's network for these rows
    memory: Memory = ()  # before the first step of each sequence

    def part(self, at: int | slice) -> "Minibatch":
        """Some of the rows, or one entry along the first dimension."""
        fields = (None if field is None else field[at] for field in self[:-1])
        return Minibatch._make((*fields, self.memory))

    def to(self, device: torch.device) -> "Minibatch":
        """The same rows on another device."""
        fields = (None if field is None else field.to(device) for field in self[:-1])
        return Minibatch._make((*fields, tuple(part.to(device) for part in self.memory)))


class Losses(NamedTuple):
    """The parts of PPO's loss, and how far the policy has moved."""

    loss: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor  # share of the ratios that are outside the clip range

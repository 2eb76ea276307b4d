"""What PPO's minibatches are made of: decisions of a rollout in random order, or whole sequences."""

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from hotlap.train import parallel
from hotlap.train.configs import PPOConfig
from hotlap.train.gradients import Gradient
from hotlap.train.minibatch import Minibatch
from hotlap.train.rollout import Rollout

Draw = tuple[Any, ...]  # what one minibatch is made of


class Batches(Protocol):
    """Draws minibatches from a rollout. One comes in parts of equal weight: `config.accumulate`, or more if that is faster.

    `number`: how many a pass has, if `draw` works on tensors alone and asks the device for nothing; else None.
    """

    number: int | None

    def draw(self, generator: torch.Generator, progress: float) -> Iterator[Draw]:
        """One pass over the rollout."""

    def rows(self, *draw: Any) -> list[Minibatch]:
        """The parts of a minibatch, prepared for the gradient. Of tensors alone, and asks the device for nothing."""


def batches_of(rollout: Rollout, config: PPOConfig, gradient: Gradient) -> Batches:
    """Where the rollout is on a GPU, rows are gathered minibatch by minibatch, so that a CUDA graph can do it."""
    if config.by_sequences:
        return Sequences(rollout, config, gradient)
    return (GatheredSteps if rollout.advantage.is_cuda else ShuffledSteps)(rollout, config, gradient)


class GatheredSteps:
    """Decisions in random order; a draw is the numbers of a minibatch's decisions."""

    def __init__(self, rollout: Rollout, config: PPOConfig, gradient: Gradient) -> None:
        self.rollout, self.config, self.gradient = rollout, config, gradient
        count = rollout.advantage.numel()
        self.number = count // self._size(count) if rollout.valid is None and self._size(count) else None

    def draw(self, generator: torch.Generator, progress: float) -> Iterator[Draw]:
        order, size = self._order(generator)
        if not size:
            return
        for begin in range(0, len(order) - size + 1, size):
            yield (order[begin : begin + size],)

    def _order(self, generator: torch.Generator) -> tuple[Tensor, int]:
        """The numbers of all decisions to learn from, in random order, and how many make a minibatch (0: there are too few)."""
        rollout = self.rollout
        count, device = rollout.advantage.numel(), rollout.advantage.device
        valid = None if rollout.valid is None else rollout.valid.flatten().nonzero()[:, 0]
        if valid is not None:
            count = parallel.least(len(valid), device)
        order = torch.randperm(count if valid is None else len(valid), generator=generator, device=generator.device).to(device)
        order = order if valid is None else valid[order][:count]
        return order, self._size(count)

    def _size(self, count: int) -> int:
        """Of a minibatch, if there are so many decisions."""
        return min(count, self.config.batch_size) // self.config.accumulate * self.config.accumulate

    def rows(self, *draw: Any) -> list[Minibatch]:
        (chosen,) = draw
        return self._parts(self._gather(chosen, len(chosen)), 0, len(chosen))

    def _gather(self, chosen: Tensor, size: int) -> Minibatch:
        """The rows of these decisions, with advantages normalized in each minibatch of `size`, and prepared."""
        rollout = self.rollout

        def select(part: Tensor) -> Tensor:
            return part.flatten(0, 1)[chosen]

        value = select(rollout.value[:-1])
        return_, advantage = returns_and_advantages(self.config, select(rollout.advantage), value, size)
        rows = Minibatch(
            obs=select(rollout.obs[:-1]),
            action=select(rollout.action),
            log_prob=select(rollout.log_prob),
            value=value,
            advantage=advantage,
            return_=return_,
            mask=None if rollout.mask is None else select(rollout.mask[:-1]),
            teacher=None if rollout.teacher is None else select(rollout.teacher),
        )
        return self.gradient.prepare(rows, self._part(size))

    def _part(self, size: int) -> int:
        return self.gradient.part_size(size // self.config.accumulate, 1)

    def _parts(self, rows: Minibatch, begin: int, size: int) -> list[Minibatch]:
        step = self._part(size)
        return [rows.part(slice(at, at + step)) for at in range(begin, begin + size, step)]


class ShuffledSteps(GatheredSteps):
    """The same on a CPU, where all rows of a pass are best brought into their order at once; a draw is where a minibatch
    begins, and its size."""

    def draw(self, generator: torch.Generator, progress: float) -> Iterator[Draw]:
        order, size = self._order(generator)
        if not size:
            return
        self._shuffled = self._gather(order, size)
        for begin in range(0, len(order) - size + 1, size):
            yield begin, size

    def rows(self, *draw: Any) -> list[Minibatch]:
        return self._parts(self._shuffled, *draw)


class Sequences:
    """Whole sequences; a draw is their numbers (rows of the vector, segment after segment) and, with `priority_alpha`, which
    draws those with large advantages more often, the importance weights that correct for it."""

    def __init__(self, rollout: Rollout, config: PPOConfig, gradient: Gradient) -> None:
        self.rollout, self.config, self.gradient = rollout, config, gradient
        self._columns = rollout.advantage.shape[1] * config.segments
        self._size = min(self._columns, config.batch_size // config.sequence_steps) // config.accumulate * config.accumulate
        self.number = None if config.priority_alpha else self._columns // self._size

    def draw(self, generator: torch.Generator, progress: float) -> Iterator[Draw]:
        config, advantage = self.config, self.rollout.advantage
        steps, device, columns, size = config.sequence_steps, advantage.device, self._columns, self._size
        order = torch.randperm(columns, generator=generator, device=generator.device).to(device)
        probability = None
        if config.priority_alpha:
            weight = advantage.abs().view(config.segments, steps, -1).mean(1).flatten() ** config.priority_alpha
            probability = (weight + 1e-6) / (weight + 1e-6).sum()
        for begin in range(0, columns - size + 1, size):
            if probability is None:
                yield (order[begin : begin + size],)
            else:
                drawn = torch.multinomial(probability.to(generator.device), size, replacement=True, generator=generator)
                chosen, beta = drawn.to(device), config.priority_beta + progress * (1 - config.priority_beta)
                yield chosen, (columns * probability[chosen]) ** -beta

    def rows(self, *draw: Any) -> list[Minibatch]:
        chosen, correction = draw if len(draw) == 2 else (draw[0], None)
        step = self.gradient.part_size(len(chosen) // self.config.accumulate, self.config.sequence_steps)
        parts = self._parts(chosen, correction, step)
        return [self.gradient.prepare(part, len(part.advantage)) for part in parts]

    def _parts(self, chosen: Tensor, correction: Tensor | None, step: int) -> list[Minibatch]:
        """In parts of `step` sequences."""
        rollout, config = self.rollout, self.config
        columns, memory, rows_of_vector = len(chosen), rollout.first_memory, rollout.advantage.shape[1]

        def split(part: Tensor) -> Tensor:
            """[time, columns, ...] as [parts, time, step, ...]."""
            return part.view(len(part), -1, step, *part.shape[2:]).movedim(1, 0)

        def rows(part: Tensor) -> Tensor:
            return split(part).flatten(1, 2)

        def select(part: Tensor) -> Tensor:
            """The sequences that were chosen, from [horizon, rows, ...]."""
            if config.segments == 1:
                return part.index_select(1, chosen)
            segment, row = chosen // rows_of_vector, chosen % rows_of_vector
            return part.view(config.segments, -1, *part.shape[1:])[segment, :, row].transpose(0, 1).contiguous()

        weight = None if rollout.valid is None else select(rollout.valid).float()
        value, advantage = select(rollout.value[:-1]), select(rollout.advantage)
        size = advantage.numel()
        return_, scaled = returns_and_advantages(config, advantage.flatten(), value.flatten(), size, weight)
        scaled = scaled.view_as(advantage)
        obs = select(rollout.obs[:-1])
        minibatch = Minibatch(
            obs=split(obs) if memory else rows(obs),
            action=rows(select(rollout.action)),
            log_prob=rows(select(rollout.log_prob)),
            value=rows(value),
            advantage=rows(scaled if correction is None else scaled * correction),
            return_=rows(return_.view_as(advantage)),
            mask=None if rollout.mask is None else rows(select(rollout.mask[:-1])),
            weight=None if weight is None else rows(weight),
            done=split(select(rollout.done)) if memory or config.contrastive else None,
            teacher=None if rollout.teacher is None else rows(select(rollout.teacher)),
        )
        of_part = [chosen[begin : begin + step] for begin in range(0, columns, step)]
        starts = tuple(kept.flatten(0, 1) for kept in memory)
        return [
            minibatch.part(i)._replace(memory=tuple(kept[sequences] for kept in starts)) for i, sequences in enumerate(of_part)
        ]


def returns_and_advantages(
    config: PPOConfig, advantage: Tensor, value: Tensor, size: int, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Returns, the targets of the value function, and advantages, normalized in each minibatch of `size` if asked for."""
    used = len(advantage) // size * size
    returns, parts = (advantage + value)[:used], advantage[:used].view(-1, size)
    if config.normalize_advantage and size * parallel.world() > 1:
        if weight is not None or parallel.world() > 1:
            counted = torch.ones_like(parts) if weight is None else weight.view(-1, size)
            sums = parallel.total(torch.stack([counted.sum(1), (parts * counted).sum(1), (parts**2 * counted).sum(1)]))
            mean = (sums[1] / sums[0].clamp(min=1))[:, None]
            square = (sums[2][:, None] - sums[0][:, None] * mean**2).clamp(min=0)
            std = (square / (sums[0][:, None] - 1).clamp(min=1)).sqrt()
        else:
            std, mean = torch.std_mean(parts, 1, keepdim=True)
        parts = (parts - mean) / (std + 1e-8)
    return returns, parts.flatten()

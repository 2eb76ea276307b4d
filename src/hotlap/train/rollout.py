"""PPO's rollout buffer, and the minibatches sampled from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.envs.buffers import StepBuffers
from hotlap.train import parallel
from hotlap.train.actions import Actions
from hotlap.train.configs import PPOConfig
from hotlap.train.memory import Memory
from hotlap.train.minibatch import Minibatch
from hotlap.train.normalize import Moments

if TYPE_CHECKING:
    from hotlap.train.gradients import Gradient


@dataclass
class TurnBuffers:
    """Turn-based games: the seat to act [T + 1, N], rewards of all seats [T, N, seats], the seat of a cut-off [T, N]."""

    seat: NDArray[np.int8]
    rewards: NDArray[np.float32]
    last: NDArray[np.int8]


@dataclass
class Rollout:
    """Time-major: [horizon, rows, ...]; observations, masks and values have one step more."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    reward: Tensor
    done: Tensor
    advantage: Tensor
    mask: Tensor | None
    memory: Memory  # of the network, now
    first_memory: Memory  # before the first step of each sequence: [segments, rows, ...]
    in_place: bool  # whether environments write observations, masks and rewards here themselves
    turns: TurnBuffers | None = None
    valid: NDArray[np.bool_] | None = None  # decisions to learn from, if not all
    teacher: Tensor | None = None  # outputs of a teacher's network [horizon, rows, outputs], if there is one

    @classmethod
    def allocate(cls, config: PPOConfig, env: Any, actions: Actions, memory: Memory, device: torch.device) -> "Rollout":
        """For `config.horizon` steps: views of the environments' own arrays where they have one for each step."""
        device = torch.device("cpu") if config.cpu_offload else device
        steps, rows, rings = config.horizon, env.num_envs, env.rings
        kind = torch.from_numpy(rings["obs"][:0]).dtype
        wanted = torch.float32 if config.normalize_obs or kind.is_floating_point else kind
        fits = env.depth == steps + 1 and device.type == "cpu" and kind == wanted and not config.normalize_obs
        in_place = fits and config.zero_copy

        def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=kind, device=device)

        def ring(name: str, kind: torch.dtype) -> Tensor:
            return torch.from_numpy(rings[name]) if in_place else zeros(steps + 1, *rings[name].shape[1:], kind=kind)

        turns = None
        if env.env_spec.seats > 1:
            turns = TurnBuffers(
                rings["seat"] if in_place else np.zeros((steps + 1, rows), np.int8),
                rings["rewards"][1:] if in_place else np.zeros((steps, rows, env.env_spec.seats), np.float32),
                np.zeros((steps, rows), np.int8),
            )
        return cls(
            obs=ring("obs", wanted),
            action=zeros(steps, rows, *actions.shape, kind=actions.dtype),
            log_prob=zeros(steps, rows),
            value=zeros(steps + 1, rows),
            reward=ring("reward", torch.float32)[1:],
            done=zeros(steps, rows),
            advantage=zeros(steps, rows),
            mask=ring("mask", torch.bool) if env.engine.masked else None,
            memory=memory,
            first_memory=tuple(part.new_zeros(config.segments, *part.shape) for part in memory),
            in_place=in_place,
            turns=turns,
            valid=np.ones((steps, rows), bool) if env.env_spec.seats > 1 or env.env_spec.agents > 1 else None,
        )

    def begin(self) -> None:
        """The next rollout goes on from where the last one ended."""
        self.done.zero_()

    def place(self, t: int, rows: slice, out: StepBuffers, moments: Moments | None) -> None:
        """Where some rows are at step t, unless the environments wrote it here themselves, and the memory they have there."""
        for first, now in zip(self.first_memory, self.memory, strict=True):
            segment, step = divmod(t * len(first), len(self.reward))
            if not step and segment < len(first):
                first[segment, rows] = now[rows]
        if self.valid is not None and t < len(self.valid) and out.active.size:
            self.valid[t, rows] = out.active
        if self.in_place:
            return
        obs = torch.from_numpy(out.obs).to(self.obs.device)
        if moments is not None:
            if t < len(self.reward):  # the last row is the first of the next rollout
                moments.add(obs)
            obs = moments.normalize(obs)
        self.obs[t, rows] = obs.to(self.obs.dtype)
        if self.mask is not None:
            self.mask[t, rows] = torch.from_numpy(out.mask).to(self.mask.device)
        if self.turns is not None:
            self.turns.seat[t, rows] = out.seat

    def store(self, t: int, rows: slice, out: StepBuffers, ended: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """What step t of some rows led to. Returns the rows that begin an episode: those that ended one, and waiting agents."""
        if not self.in_place:
            self.reward[t, rows].copy_(torch.from_numpy(out.reward))
            if self.turns is not None:
                self.turns.rewards[t, rows] = out.rewards
        fresh = ended
        if self.valid is not None and out.active.size:
            waiting = ~self.valid[t, rows]
            fresh = waiting if ended is None else ended | waiting
        if fresh is not None:
            self.done[t, rows].copy_(torch.from_numpy(fresh))
        return fresh

    def bootstrap(self, t: int, rows: slice, out: StepBuffers, chosen: NDArray[np.int64], value: Tensor) -> None:
        """Add the discounted value of where episodes were cut off to their last reward."""
        index = torch.from_numpy(chosen).to(self.reward.device)
        if self.turns is None:
            self.reward[t, rows][index] += value.to(self.reward.device)
            return
        seat = out.final_seat[chosen]
        self.turns.rewards[t, rows][chosen, seat] += value.cpu().numpy()
        self.turns.last[t, rows][chosen] = seat
        self.done[t, rows][index] = 2.0

    def forget(self, rows: slice, fresh: NDArray[np.bool_] | None) -> None:
        """Clear the memory of rows that begin an episode."""
        if fresh is not None:
            for part in self.memory:
                part[rows][torch.from_numpy(np.flatnonzero(fresh)).to(part.device)] = 0.0


def minibatches(
    rollout: Rollout, config: PPOConfig, generator: torch.Generator, progress: float, gradient: "Gradient"
) -> Iterator[list[Minibatch]]:
    """One pass over a rollout. A minibatch comes in parts of equal weight: `config.accumulate`, or more if that is faster."""
    if config.by_sequences:
        for chosen, correction in _draw_sequences(rollout, config, generator, progress):
            step = gradient.part_size(len(chosen) // config.accumulate, config.sequence_steps)
            parts = _sequences(rollout, config, chosen, correction, step)
            yield [gradient.prepare(part, len(part.advantage)) for part in parts]
    else:
        yield from _of_steps(rollout, config, generator, gradient)


def _of_steps(
    rollout: Rollout, config: PPOConfig, generator: torch.Generator, gradient: "Gradient"
) -> Iterator[list[Minibatch]]:
    """Decisions in random order."""
    count, device = rollout.advantage.numel(), rollout.advantage.device
    if rollout.valid is None:
        order = torch.randperm(count, generator=generator, device=generator.device).to(device)
    else:
        valid = torch.from_numpy(np.flatnonzero(rollout.valid)).to(device)
        count = parallel.least(len(valid), device)
        order = valid[torch.randperm(len(valid), generator=generator, device=generator.device).to(device)][:count]
    size = min(count, config.batch_size) // config.accumulate * config.accumulate
    if not size:
        return

    def shuffled(part: Tensor) -> Tensor:
        return part.flatten(0, 1)[order]

    value = shuffled(rollout.value[:-1])
    return_, advantage = returns_and_advantages(config, shuffled(rollout.advantage), value, size)
    rows = Minibatch(
        obs=shuffled(rollout.obs[:-1]),
        action=shuffled(rollout.action),
        log_prob=shuffled(rollout.log_prob),
        value=value,
        advantage=advantage,
        return_=return_,
        mask=None if rollout.mask is None else shuffled(rollout.mask[:-1]),
        teacher=None if rollout.teacher is None else shuffled(rollout.teacher),
    )
    step = gradient.part_size(size // config.accumulate, 1)
    rows = gradient.prepare(rows, step)  # for all minibatches at once
    for begin in range(0, count - size + 1, size):
        yield [rows.part(slice(at, at + step)) for at in range(begin, begin + size, step)]


def _draw_sequences(
    rollout: Rollout, config: PPOConfig, generator: torch.Generator, progress: float
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Sequences that make a minibatch, each given by its number: rows of the vector, segment after segment; with
    `priority_alpha`, those with large advantages more often, and the importance weights that correct for it."""
    steps, device = config.sequence_steps, rollout.advantage.device
    columns = rollout.advantage.shape[1] * config.segments
    size = min(columns, config.batch_size // steps) // config.accumulate * config.accumulate
    order = torch.randperm(columns, generator=generator, device=generator.device).to(device)
    probability = None
    if config.priority_alpha:
        weight = rollout.advantage.abs().view(config.segments, steps, -1).mean(1).flatten() ** config.priority_alpha
        probability = (weight + 1e-6) / (weight + 1e-6).sum()
    for begin in range(0, columns - size + 1, size):
        if probability is None:
            yield order[begin : begin + size], None
        else:
            drawn = torch.multinomial(probability.to(generator.device), size, replacement=True, generator=generator)
            chosen, beta = drawn.to(device), config.priority_beta + progress * (1 - config.priority_beta)
            yield chosen, (columns * probability[chosen]) ** -beta


def _sequences(rollout: Rollout, config: PPOConfig, chosen: Tensor, correction: Tensor | None, step: int) -> list[Minibatch]:
    """A minibatch of whole sequences, in parts of `step` sequences."""
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

    weight = None
    if rollout.valid is not None:
        weight = select(torch.from_numpy(rollout.valid).to(chosen.device)).float()
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
    return [minibatch.part(i)._replace(memory=tuple(kept[sequences] for kept in starts)) for i, sequences in enumerate(of_part)]


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

"""PPO's rollout buffer, and the minibatches sampled from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.train import fused, parallel
from hotlap.train.memory import Memory

Rows = dict[str, Any]  # tensors with a row per decision
ByHand = fused.FusedPolicy | fused.FusedRecurrent | None


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
    memory: Memory  # of the network, before the first step
    in_place: bool  # whether environments write observations, masks and rewards here themselves
    turns: TurnBuffers | None = None
    valid: NDArray[np.bool_] | None = None  # decisions to learn from, if not all

    @classmethod
    def allocate(cls, config: Any, env: Any, actions: Any, memory: Memory, device: torch.device) -> "Rollout":
        """For `config.horizon` steps: views of the environments' own arrays where they have one for each step."""
        steps, rows, rings = config.horizon, env.num_envs, env.rings
        kind = torch.from_numpy(rings["obs"][:0]).dtype
        wanted = torch.float32 if config.normalize_obs or kind.is_floating_point else kind
        in_place = env.depth == steps + 1 and device.type == "cpu" and kind == wanted and not config.normalize_obs

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
            in_place=in_place,
            turns=turns,
            valid=np.ones((steps, rows), bool) if env.env_spec.seats > 1 or env.env_spec.agents > 1 else None,
        )

    def rows(self) -> Rows:
        """The training data, [horizon, rows, ...]."""
        parts = {
            "obs": self.obs[:-1],
            "action": self.action,
            "log_prob": self.log_prob,
            "value": self.value[:-1],
            "advantage": self.advantage,
        }
        return parts if self.mask is None else {**parts, "mask": self.mask[:-1]}


def minibatches(
    rollout: Rollout, config: Any, generator: torch.Generator, progress: float, by_hand: ByHand
) -> Iterator[list[Rows]]:
    """One pass over a rollout. A minibatch comes in parts of equal weight: `config.accumulate`, or more, so that a network that
    is computed by hand finds in the cache what it needs again."""
    if rollout.memory or config.sequences or config.priority_alpha:
        for batch in _of_sequences(rollout, config, generator, progress, by_hand):
            if by_hand is None:
                yield batch
            else:
                yield [fused.prepare(config, part, len(part["scaled_advantage"])) for part in batch]
    else:
        yield from _of_steps(rollout, config, generator, by_hand)


def _of_steps(rollout: Rollout, config: Any, generator: torch.Generator, by_hand: ByHand) -> Iterator[list[Rows]]:
    """Decisions in random order."""
    flat = {name: part.flatten(0, 1) for name, part in rollout.rows().items()}
    count, device = len(flat["advantage"]), flat["advantage"].device
    if rollout.valid is None:
        order = torch.randperm(count, generator=generator, device=device)
    else:
        valid = torch.from_numpy(np.flatnonzero(rollout.valid)).to(device)
        count = parallel.least(len(valid), device)
        order = valid[torch.randperm(len(valid), generator=generator, device=device)][:count]
    size = min(count, config.batch_size) // config.accumulate * config.accumulate
    if not size:
        return
    shuffled = {name: part[order] for name, part in flat.items()}
    shuffled |= _returns_and_advantages(config, shuffled["advantage"], shuffled["value"], size)
    step = _in_cache(size // config.accumulate, 1, by_hand)
    if by_hand is not None:
        shuffled = fused.prepare(config, shuffled, step)  # for all minibatches at once
    for begin in range(0, count - size + 1, size):
        yield [{name: part[at : at + step] for name, part in shuffled.items()} for at in range(begin, begin + size, step)]


def _in_cache(size: int, rows: int, by_hand: ByHand) -> int:
    """Size of the equal parts of a minibatch whose activations stay in the cache when the gradient is computed by hand."""
    if not isinstance(by_hand, fused.FusedPolicy):
        return size
    parts = -(-size * rows // by_hand.cached_rows)
    return size // parts if size % parts == 0 else size


def _of_sequences(
    rollout: Rollout, config: Any, generator: torch.Generator, progress: float, by_hand: ByHand
) -> Iterator[list[Rows]]:
    """Whole sequences of some rows of the vector; with `priority_alpha`, those with large advantages more often."""
    columns, device = rollout.advantage.shape[1], rollout.advantage.device
    size = min(columns, config.batch_size // config.horizon) // config.accumulate * config.accumulate
    step = _in_cache(size // config.accumulate, config.horizon, by_hand)
    order = torch.randperm(columns, generator=generator, device=device)
    probability = None
    if config.priority_alpha:
        weight = rollout.advantage.abs().mean(0) ** config.priority_alpha
        probability = (weight + 1e-6) / (weight + 1e-6).sum()
    for begin in range(0, columns - size + 1, size):
        chosen, correction = order[begin : begin + size], None
        if probability is not None:
            chosen = torch.multinomial(probability, size, replacement=True, generator=generator)
            beta = config.priority_beta + progress * (1 - config.priority_beta)
            correction = (columns * probability[chosen]) ** -beta
        yield _sequences(rollout, config, chosen, correction, step)


def _sequences(rollout: Rollout, config: Any, chosen: Tensor, correction: Tensor | None, step: int) -> list[Rows]:
    advantage, value = rollout.advantage[:, chosen], rollout.value[:-1, chosen]
    weight = None
    if rollout.valid is not None:
        weight = torch.from_numpy(rollout.valid).to(chosen.device)[:, chosen].float()
    times, columns = advantage.shape
    targets = _returns_and_advantages(config, advantage.flatten(), value.flatten(), times * columns, weight)
    targets = {name: part.view(times, columns) for name, part in targets.items()}
    if correction is not None:
        targets["scaled_advantage"] = targets["scaled_advantage"] * correction
    if weight is not None:
        targets["weight"] = weight

    def parts(columns: Tensor) -> Tensor:
        """[time, columns, ...] as [parts, time, step, ...]."""
        return columns.view(len(columns), -1, step, *columns.shape[2:]).movedim(1, 0)

    split = {name: parts(part) for name, part in targets.items()}
    split |= {name: parts(part.index_select(1, chosen)) for name, part in rollout.rows().items()}
    memory: Rows = {}
    if rollout.memory:
        memory = {"obs": split.pop("obs"), "done": parts(rollout.done[:, chosen])}
    rows: Rows = {name: part.flatten(1, 2) for name, part in split.items()} | memory
    minibatch: list[Rows] = [{name: part[i] for name, part in rows.items()} for i in range(columns // step)]
    for i, part in enumerate(minibatch if rollout.memory else ()):
        part["memory"] = tuple(kept[chosen[i * step : (i + 1) * step]] for kept in rollout.memory)
    return minibatch


def _returns_and_advantages(config: Any, advantage: Tensor, value: Tensor, size: int, weight: Tensor | None = None) -> Rows:
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
    return {"returns": returns, "scaled_advantage": parts.flatten()}

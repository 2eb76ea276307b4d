"""Losses beside PPO's own, behind one small interface; none unless asked for.

`Contrastive`: features of a state tell the features of a state some steps later in the same episode from those of other states
(InfoNCE). `Kickstart`: the policy stays near that of a teacher, the checkpoint of another run, less and less (KL divergence).
Each is a stage of the profile below `update/loss`, so that what it costs is seen.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.errors import RecordError
from hotlap.core.text import one_line
from hotlap.envs.spec import EnvSpec
from hotlap.record.run import find
from hotlap.train import checkpoint
from hotlap.train.actions import Actions
from hotlap.train.configs import PPOConfig
from hotlap.train.memory import Memory, cleared
from hotlap.train.minibatch import Minibatch
from hotlap.train.nets import Policy
from hotlap.train.rollout import Rollout

PROJECTED = 64  # numbers that states are compared by
TEMPERATURE = 0.1  # of their similarities, which are from -1 to 1
STATES = 512  # of a minibatch that are compared: the similarities are a square of them
ROWS = 4096  # of a rollout that a teacher without a memory sees at once


class Auxiliary(Protocol):
    """A loss beside PPO's."""

    stage: str  # where its time goes, and its name in logs
    last: Tensor  # its value on the last minibatch, without its weight

    def begin(self, rollout: Rollout, progress: float, clock: StageClock) -> None:
        """A rollout is complete, and learning from it begins."""

    def loss(self, batch: Minibatch, output: Tensor, features: Tensor) -> Tensor | None:
        """With its weight, from the network's outputs and the actor's features; None where it counts nothing."""

    def forget(self) -> None:
        """All rows begin new episodes."""

    def state(self) -> dict[str, Tensor]:
        """What the rest of the run depends on."""

    def load(self, state: dict[str, Tensor]) -> None:
        """See `state`."""


# -- contrastive --


class Projections(nn.Module):
    """What states are compared by: those that ask, and those that are the answers."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(units, PROJECTED), nn.Linear(units, PROJECTED)


def info_nce(query: Tensor, key: Tensor, counted: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """The mean cross-entropy of finding key i, among all keys, by its cosine similarity to query i, where that is `counted`."""
    similarity = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).t() / temperature
    surprise = F.cross_entropy(similarity, torch.arange(len(query), device=query.device), reduction="none")
    return (surprise * counted).sum() / counted.sum().clamp(min=1)


class Contrastive:
    """InfoNCE on pairs of states of one episode, up to `contrastive_steps` apart. The projections are part of the network."""

    stage = stages.CONTRASTIVE

    def __init__(self, projections: Projections, config: PPOConfig) -> None:
        self._projections, self._weight, self._ahead = projections, config.contrastive, config.contrastive_steps
        self.last = torch.zeros((), device=projections.query.weight.device)

    def begin(self, rollout: Rollout, progress: float, clock: StageClock) -> None:
        pass

    def loss(self, batch: Minibatch, output: Tensor, features: Tensor) -> Tensor | None:
        assert batch.done is not None
        if len(batch.done) < 2:
            return None
        now, later, counted = draw_pairs(batch.done, self._ahead)
        if batch.weight is not None:
            counted = counted * batch.weight[now] * batch.weight[later]
        found = info_nce(self._projections.query(features[now]), self._projections.key(features[later]), counted)
        self.last.copy_(found.detach())
        return self._weight * found

    def forget(self) -> None:
        pass

    def state(self) -> dict[str, Tensor]:
        return {}  # what is learned is part of the network

    def load(self, state: dict[str, Tensor]) -> None:
        pass


def draw_pairs(done: Tensor, ahead: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of states of sequences whose ends of episodes are `done` [time, columns], rows some steps later, and 1 where no
    episode ended between them, else 0. Drawn from torch's own generator, which is seeded for each iteration."""
    steps, columns = done.shape
    count, device = min(STATES, (steps - 1) * columns), done.device
    time = torch.randint(0, steps - 1, (count,), device=device)
    column = torch.randint(0, columns, (count,), device=device)
    later = (time + torch.randint(1, ahead + 1, (count,), device=device)).clamp(max=steps - 1)
    ends = F.pad(done.cumsum(0), (0, 0, 1, 0))  # before each step
    same = ends[later, column] == ends[time, column]
    return time * columns + column, later * columns + column, same.float()


# -- kickstart --


class Kickstart:
    """The KL divergence of the policy from a teacher's, with a weight that falls linearly to 0.

    The teacher sees every rollout once, from its first step to its last, with a memory of its own that goes on from one rollout
    to the next; what it would do is part of the minibatches.
    """

    stage = stages.KICKSTART

    def __init__(self, teacher: Policy, actions: Actions, config: PPOConfig, rows: int) -> None:
        self._teacher, self._actions, self._config = teacher, actions, config
        self._memory: Memory = teacher.initial(rows)
        self._outputs: Tensor | None = None
        self.last = torch.zeros((), device=next(teacher.parameters()).device)
        self._weight = torch.zeros_like(self.last)  # in the device's memory, where CUDA graphs look it up

    def begin(self, rollout: Rollout, progress: float, clock: StageClock) -> None:
        config = self._config
        over = config.kickstart_steps or config.total_steps
        weight = config.kickstart * max(0.0, 1 - progress * config.total_steps / over)
        self._weight.fill_(weight)
        if not weight:
            rollout.teacher = None
            self.last.zero_()
            return
        with clock.stage(stages.UPDATE), clock.stage(stages.LOSS), clock.stage(self.stage), torch.no_grad():
            rollout.teacher = self._watch(rollout)

    def _watch(self, rollout: Rollout) -> Tensor:
        """What the teacher's network says at each step of a rollout: [horizon, rows, outputs]."""
        steps, rows = rollout.advantage.shape
        if self._outputs is None:
            self._outputs = torch.zeros(steps, rows, self._actions.outputs, device=rollout.advantage.device)
        device = self.last.device
        if self._memory:
            for t in range(steps):
                output, _, memory = self._teacher(rollout.obs[t].to(device), self._memory)
                self._memory = cleared(memory, rollout.done[t].to(device))
                self._outputs[t] = output
        else:
            seen, outputs = rollout.obs[:-1].flatten(0, 1), self._outputs.flatten(0, 1)
            for begin in range(0, len(seen), ROWS):
                outputs[begin : begin + ROWS] = self._teacher(seen[begin : begin + ROWS].to(device))[0]
        return self._outputs

    def loss(self, batch: Minibatch, output: Tensor, features: Tensor) -> Tensor | None:
        if batch.teacher is None:
            return None
        divergence = self._actions.kl(batch.teacher, output, batch.mask)
        if batch.weight is None:
            mean = divergence.mean()
        else:
            mean = (divergence * batch.weight).sum() / batch.weight.sum().clamp(min=1)
        self.last.copy_(mean.detach() * (self._weight > 0))  # a CUDA graph goes on when there is no teacher any more
        return self._weight * mean

    def forget(self) -> None:
        self._memory = tuple(torch.zeros_like(part) for part in self._memory)

    def state(self) -> dict[str, Tensor]:
        return {f"memory.{i}": part for i, part in enumerate(self._memory)}

    def load(self, state: dict[str, Tensor]) -> None:
        self._memory = tuple(state[f"memory.{i}"] for i in range(len(self._memory)))


MakePolicy = Callable[[PPOConfig], Policy]  # the network that a config describes


def load_teacher(config: PPOConfig, spec: EnvSpec, make: MakePolicy) -> Policy:
    """The policy of the run that `config.teacher` names, which must see and do what this one does."""
    found = checkpoint.load(Path(find(config.teacher)))
    saved = found.source
    for what in ("obs_shape", "obs_dtype", "obs_size", "action_sizes", "action_shape"):
        if getattr(saved.spec, what) != getattr(spec, what):
            raise RecordError(f"{found.path} cannot teach this policy: its environment has another {what.replace('_', ' ')}")
    known = {field.name for field in fields(config)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.config.items() if k in known}
    if saved.algorithm != "PPO" or values.get("normalize_obs"):
        raise RecordError(f"{found.path} cannot teach this policy: a teacher is trained with PPO, without normalize-obs")
    device = torch.device(config.device)
    teacher = make(replace(config, **values)).to(device)
    try:
        teacher.load_state_dict(checkpoint.tensors_of(found.arrays, device, "net."))
    except RuntimeError as error:
        raise RecordError(f"{found.path} cannot teach this policy: {one_line(str(error))}") from error
    return teacher.requires_grad_(False)


def losses_of(
    config: PPOConfig, spec: EnvSpec, net: Policy, actions: Actions, rows: int, make: MakePolicy
) -> tuple[Auxiliary, ...]:
    """The losses that the config asks for; `make` makes the teacher's network."""
    chosen: list[Auxiliary] = []
    if config.contrastive:
        chosen.append(Contrastive(net.get_submodule("contrastive"), config))  # type: ignore[arg-type]
    if config.kickstart:
        chosen.append(Kickstart(load_teacher(config, spec, make), actions, config, rows))
    return tuple(chosen)

"""How rows act: the interface, and the ways to do it.

`StepByStep` runs a network, any with or without a memory, once per step. `Dense` and `FewRows` compute a policy of dense layers
by hand: a step needs only actions, and the log-probabilities and values of the whole rollout come at its end, for all steps at
once. `AgainstPast` puts past policies in some of the seats of another way to act. `backend.choose` says which is used.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from hotlap.train.actions import Actions
from hotlap.train.dense import ActorKernel
from hotlap.train.dense_policy import DensePolicy
from hotlap.train.gradients import autocast
from hotlap.train.memory import Memory
from hotlap.train.rollout import Rollout
from hotlap.train.selfplay import Opponents

Forward = Callable[[Tensor, Memory], tuple[Tensor, Tensor, Memory]]  # outputs, values and the new memory


class Actor(Protocol):
    """Fills in actions, log-probabilities and values of a rollout."""

    def begin(self, iteration: int) -> None:
        """A rollout begins."""

    def act(self, group: int, t: int) -> Tensor:
        """Sample the actions of a group of rows at step t of the rollout."""

    def finish(self) -> None:
        """The rollout is over: fill in what is still missing, the values of the last observations among it."""


class Groups:
    """The rows that act, in groups that step apart from each other: their parts of each step of the rollout.

    Each group draws from a generator of its own, so that the order in which they come does not matter.
    """

    def __init__(self, rollout: Rollout, actions: Actions, rows: Sequence[slice], generators: list[torch.Generator]) -> None:
        def views(buffer: Tensor) -> list[list[Tensor]]:
            return [[step[part] for step in buffer] for part in rows]

        self.rollout, self.actions, self.rows, self.generators = rollout, actions, list(rows), generators
        self.obs, self.action = views(rollout.obs), views(rollout.action)
        self.log_prob, self.value = views(rollout.log_prob), views(rollout.value)
        self.mask = None if rollout.mask is None else views(rollout.mask)
        self.memory: list[Memory] = [tuple(kept[part] for kept in rollout.memory) for part in rows]

    def mask_at(self, group: int, t: int) -> Tensor | None:
        return None if self.mask is None else self.mask[group][t]


class StepByStep:
    """A network that gives outputs, values and a new memory at every step."""

    def __init__(self, groups: Groups, forward: Forward, precision: str, device: torch.device) -> None:
        self._groups, self._forward, self._precision, self._device = groups, forward, precision, device

    def begin(self, iteration: int) -> None:
        pass

    def act(self, group: int, t: int) -> Tensor:
        groups, memory = self._groups, self._groups.memory[group]
        obs, mask = groups.obs[group][t].to(self._device), groups.mask_at(group, t)
        with autocast(self._device, self._precision):
            output, value, new_memory = self._forward(obs, memory)
        for kept, new in zip(memory, new_memory, strict=True):
            kept.copy_(new)
        mask = None if mask is None else mask.to(self._device)
        action, log_prob = groups.actions.sample(output, groups.generators[group], mask)
        groups.value[group][t].copy_(value)
        groups.log_prob[group][t].copy_(log_prob)
        return groups.action[group][t].copy_(action)

    def finish(self) -> None:
        rollout = self._groups.rollout
        memory = tuple(kept.clone() for kept in rollout.memory)  # it is only looked ahead
        with autocast(self._device, self._precision):
            rollout.value[-1] = self._forward(rollout.obs[-1].to(self._device), memory)[1]


class Dense:
    """Dense layers by hand."""

    def __init__(self, groups: Groups, policy: DensePolicy) -> None:
        self._groups, self._policy = groups, policy

    def begin(self, iteration: int) -> None:
        pass

    def act(self, group: int, t: int) -> Tensor:
        groups = self._groups
        logits = self._policy.logits(groups.obs[group][t])
        action = groups.actions.sample_action(logits, groups.generators[group], groups.mask_at(group, t))
        return groups.action[group][t].copy_(action)

    def finish(self) -> None:
        """In parts of some steps, whose numbers stay in the cache."""
        rollout, actions = self._groups.rollout, self._groups.actions
        rows = rollout.action.shape[1]
        some = max(1, self._policy.cached_rows // rows)
        for begin in range(0, len(rollout.obs), some):
            steps = slice(begin, begin + some)
            logits, value = self._policy.logits_and_values(rollout.obs[steps].flatten(0, 1))
            rollout.value[steps] = value.view(-1, rows)
            action = rollout.action[steps].flatten()
            if len(action):  # the last observation has none
                mask = None if rollout.mask is None else rollout.mask[steps].flatten(0, 1)[: len(action)]
                log_prob = actions.log_prob(logits[: len(action)], action, mask)
                rollout.log_prob[steps] = log_prob.view(-1, rows)


class FewRows(Dense):
    """A few rows by one call of C per step, from random numbers that are drawn for the whole rollout."""

    def __init__(self, groups: Groups, policy: DensePolicy, kernel: ActorKernel) -> None:
        super().__init__(groups, policy)
        steps = len(groups.rollout.action)
        self._kernel = kernel
        self._draws = [torch.zeros(steps, rows.stop - rows.start) for rows in groups.rows]
        self._draw = [list(draws) for draws in self._draws]

    def begin(self, iteration: int) -> None:
        for draws, generator in zip(self._draws, self._groups.generators, strict=True):
            torch.rand(draws.shape, generator=generator, out=draws)

    def act(self, group: int, t: int) -> Tensor:
        groups = self._groups
        obs, action = self._policy.encode(groups.obs[group][t]).contiguous(), groups.action[group][t]
        self._kernel.act(obs, groups.mask_at(group, t), self._draw[group][t], action)
        return action


class AgainstPast:
    """Past policies act in their seats; in all others `actor` does."""

    def __init__(self, actor: Actor, groups: Groups, opponents: Opponents, seed: int) -> None:
        self._actor, self._groups, self._opponents, self._seed = actor, groups, opponents, seed

    def begin(self, iteration: int) -> None:
        self._opponents.draw(self._seed, iteration)
        self._actor.begin(iteration)

    def act(self, group: int, t: int) -> Tensor:
        groups, action = self._groups, self._actor.act(group, t)
        rows, turns = groups.rows[group], groups.rollout.turns
        assert turns is not None
        others = ~self._opponents.learner(turns.seat[t, rows], rows)
        if action.is_cuda and others.is_cuda:  # the host does not ask which rows they are: all where one may be
            first = slice(max(0, self._opponents.first - rows.start), None)
            sampled = self._sample(group, t, first)
            action[first] = torch.where(others[first], sampled, action[first])
        elif len(index := others.nonzero()[:, 0].to(action.device)):
            action[index] = self._sample(group, t, index)
        return action

    def _sample(self, group: int, t: int, rows: Tensor | slice) -> Tensor:
        """The past policy's actions in some rows."""
        groups, mask = self._groups, self._groups.mask_at(group, t)
        output = self._opponents.output(groups.obs[group][t][rows])
        return groups.actions.sample_action(output, groups.generators[group], None if mask is None else mask[rows])

    def finish(self) -> None:
        self._actor.finish()

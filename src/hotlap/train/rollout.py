"""PPO's rollout buffer. What environments give are NumPy arrays, or tensors where they are on a GPU."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hotlap.envs.buffers import StepBuffers
from hotlap.train.actions import Actions
from hotlap.train.configs import PPOConfig
from hotlap.train.memory import Memory
from hotlap.train.normalize import Moments


@dataclass
class TurnBuffers:
    """Turn-based games: the seat to act [T + 1, N], rewards of all seats [T, N, seats], the seat of a cut-off [T, N]. They stay
    where the environments are."""

    seat: Tensor
    rewards: Tensor
    last: Tensor


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
    valid: Tensor | None = None  # decisions to learn from, if not all
    path: Memory = ()  # the memory after each step [T, rows, ...], if it is needed when the rollout is over
    teacher: Tensor | None = None  # outputs of a teacher's network [horizon, rows, outputs], if there is one

    @classmethod
    def allocate(cls, config: PPOConfig, env: Any, actions: Actions, memory: Memory, device: torch.device) -> "Rollout":
        """For `config.horizon` steps: views of the environments' own arrays where they have one for each step."""
        device = torch.device("cpu") if config.cpu_offload else device
        steps, rows, rings = config.horizon, env.num_envs, env.rings
        seen = torch.as_tensor(rings["obs"][:0])
        wanted = torch.float32 if config.normalize_obs or seen.is_floating_point() else seen.dtype
        fits = env.depth == steps + 1 and seen.device.type == device.type and seen.dtype == wanted and not config.normalize_obs
        in_place = fits and config.zero_copy

        def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=kind, device=device)

        def ring(name: str, kind: torch.dtype) -> Tensor:
            return torch.as_tensor(rings[name]) if in_place else zeros(steps + 1, *rings[name].shape[1:], kind=kind)

        turns, several = None, env.env_spec.seats > 1 or env.env_spec.agents > 1
        if env.env_spec.seats > 1:
            seat, rewards = (torch.as_tensor(rings[name]) for name in ("seat", "rewards"))
            turns = TurnBuffers(
                seat if in_place else seat.new_zeros(steps + 1, rows),
                rewards[1:] if in_place else rewards.new_zeros(steps, rows, env.env_spec.seats),
                seat.new_zeros(steps, rows),
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
            valid=torch.ones(steps, rows, dtype=torch.bool, device=device) if several else None,
            path=tuple(zeros(steps, *part.shape) for part in memory) if env.on_device and config.bootstrap else (),
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
        if self.valid is not None and t < len(self.valid) and len(out.active):
            self.valid[t, rows] = torch.as_tensor(out.active).to(self.valid.device)
        if self.in_place:
            return
        obs = torch.as_tensor(out.obs).to(self.obs.device)
        if moments is not None:
            if t < len(self.reward):  # the last row is the first of the next rollout
                moments.add(obs)
            obs = moments.normalize(obs)
        self.obs[t, rows] = obs.to(self.obs.dtype)
        if self.mask is not None:
            self.mask[t, rows] = torch.as_tensor(out.mask).to(self.mask.device)
        if self.turns is not None:
            self.turns.seat[t, rows] = torch.as_tensor(out.seat)

    def store(self, t: int, rows: slice, out: StepBuffers, ended: Tensor | None) -> Tensor | None:
        """What step t of some rows led to. Returns the rows that begin an episode: those that ended one, and waiting agents."""
        if not self.in_place:
            self.reward[t, rows].copy_(torch.as_tensor(out.reward))
            if self.turns is not None:
                self.turns.rewards[t, rows] = torch.as_tensor(out.rewards)
        fresh = ended
        if self.valid is not None and len(out.active):
            waiting = ~self.valid[t, rows]
            fresh = waiting if ended is None else ended.to(waiting.device) | waiting
        if fresh is not None:
            self.done[t, rows].copy_(fresh)
        return fresh

    def bootstrap(self, chosen: tuple[Tensor, Tensor], value: Tensor, seat: Tensor | None) -> None:
        """Add the discounted value of where episodes were cut off, `chosen` steps and rows, to their last reward; of turn-based
        games, `seat` says whose value it is."""
        if self.turns is None or seat is None:
            self.reward[tuple(part.to(self.reward.device) for part in chosen)] += value.to(self.reward.device)
            return
        seat = seat.to(self.turns.last.device)
        there = tuple(part.to(seat.device) for part in chosen)
        self.turns.rewards[(*there, seat.long())] += value.to(seat.device)
        self.turns.last[there] = seat
        self.done[tuple(part.to(self.done.device) for part in chosen)] = 2.0

    def forget(self, rows: slice, fresh: Tensor) -> None:
        """Clear the memory of rows that begin an episode."""
        if not self.memory:
            return
        fresh = fresh.to(self.memory[0].device)
        index = None if fresh.is_cuda else fresh.nonzero()[:, 0]  # the host does not ask a GPU how many they are
        for part in self.memory:
            if index is None:
                part[rows].masked_fill_(fresh.view(-1, *[1] * (part.ndim - 1)), 0.0)
            else:
                part[rows][index] = 0.0

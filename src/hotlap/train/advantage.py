"""Generalized advantage estimation: in C where there is a compiler, in CUDA on a GPU, else the same in torch."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotlap.core import native, nvrtc
from hotlap.train import parallel

MAX_SEATS = 16  # as in gae.c


def gae(reward: Tensor, value: Tensor, done: Tensor, gamma: float, lam: float, out: Tensor | None = None) -> Tensor:
    """Advantages [T, N] from rewards [T, N], values [T + 1, N] and ends of episodes [T, N] (1 or 0), all float32.

    The reward of a step that truncated its episode must already hold the discounted value of where it was cut off.
    """
    out = torch.empty_like(reward) if out is None else out
    arrays = (reward, value, done, out)
    if reward.is_cuda and (program := _on_gpu()) is not None and all(array.is_contiguous() for array in arrays):
        program.run("gae", reward.shape[1], *arrays, *reward.shape, float(gamma), float(lam))
        return out
    library = None if reward.is_cuda else _native()
    if library is None or not all(array.is_contiguous() for array in arrays):
        return gae_in_torch(reward, value, done, gamma, lam, out)
    library.hotlap_gae(*(array.data_ptr() for array in arrays), *reward.shape, gamma, lam)
    return out


def gae_in_torch(reward: Tensor, value: Tensor, done: Tensor, gamma: float, lam: float, out: Tensor) -> Tensor:
    """The specification of `hotlap_gae`."""
    alive = 1.0 - done
    delta = reward + gamma * value[1:] * alive - value[:-1]
    running = torch.zeros_like(reward[0])
    for t in range(len(reward) - 1, -1, -1):
        running = delta[t] + gamma * lam * alive[t] * running
        out[t] = running
    return out


def of_normalized_returns(reward: Tensor, value: Tensor, done: Tensor, gamma: float, lam: float, out: Tensor) -> Tensor:
    """Advantages [T, N] of discounted returns that are normalized over the whole rollout, which values [T + 1, N] are of.

    `lam` is 1. A return ends with its episode, or with the rollout: give that whole episodes.
    """
    gae(reward, torch.zeros_like(value), done, gamma, lam, out)
    mean = parallel.mean(out.mean())
    deviation = parallel.mean(((out - mean) ** 2).mean()).sqrt()
    return out.sub_(mean).div_(deviation + 1e-5).sub_(value[:-1])


def gae_of_seats(
    reward: Tensor, value: Tensor, done: Tensor, seat: Tensor, last: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """GAE for turn-based games: advantages [T, N] and which of them are known [T, N].

    `seat` [T + 1, N] says who decided, `reward` [T, N, seats] what everyone got after that. A seat's decision is followed by
    its own next one: the last decisions of a rollout have none yet and are not known. `done` is 1 where a game ended, 2 where
    it was cut off; then the reward of the seat `last` [T, N] holds the discounted value of where, and others are not known.
    """
    advantage, known = torch.zeros_like(value[:-1]), torch.zeros_like(value[:-1], dtype=torch.bool)
    arrays = [array.contiguous() for array in (reward, value, done, seat, last)] + [advantage, known]
    if reward.is_cuda and (program := _on_gpu()) is not None:
        program.run("gae_seats", reward.shape[1], *arrays, *reward.shape, float(gamma), float(lam))
        return advantage, known
    library = None if reward.is_cuda else _native()
    if library is None:
        return seats_in_torch(reward, value, done, seat, last, gamma, lam, advantage, known)
    library.hotlap_gae_seats(*(array.data_ptr() for array in arrays), *reward.shape, gamma, lam)
    return advantage, known


def seats_in_torch(
    reward: Tensor,
    value: Tensor,
    done: Tensor,
    seat: Tensor,
    last: Tensor,
    gamma: float,
    lam: float,
    advantage: Tensor,
    known: Tensor,
) -> tuple[Tensor, Tensor]:
    """The specification of `hotlap_gae_seats`."""
    steps, envs, seats = reward.shape
    following, running, accumulated = (torch.zeros(envs, seats, device=reward.device) for _ in range(3))
    who = seat[steps].long()[:, None]
    following.scatter_(1, who, value[steps][:, None])
    seen = torch.zeros(envs, seats, dtype=torch.bool, device=reward.device).scatter_(1, who, True)
    everyone = torch.arange(seats, device=reward.device)
    for t in range(steps - 1, -1, -1):
        over = (done[t] != 0)[:, None]
        for part in (following, running, accumulated):
            part.masked_fill_(over, 0.0)
        known_at_end = (done[t] == 1)[:, None] | (everyone == last[t].long()[:, None])
        seen = torch.where(over, known_at_end, seen)
        accumulated += reward[t]
        who = seat[t].long()[:, None]
        known[t] = seen.gather(1, who)[:, 0]
        rewards, next_value, next_advantage = (part.gather(1, who)[:, 0] for part in (accumulated, following, running))
        delta = rewards + gamma * next_value - value[t]
        advantage[t] = torch.where(known[t], delta + gamma * lam * next_advantage, 0.0)
        following.scatter_(1, who, value[t][:, None])
        running.scatter_(1, who, advantage[t][:, None])
        accumulated.scatter_(1, who, 0.0)
        seen.scatter_(1, who, True)
    return advantage, known


_SOURCE = Path(__file__).with_name("gae.c")  # for the CPU and, a thread per environment, for a GPU


@cache
def _on_gpu() -> nvrtc.Program | None:
    return None if nvrtc.missing() else nvrtc.Program(_SOURCE.read_text(), str(_SOURCE.parent))


@cache
def _native() -> Any:
    library = native.optional("gae", _SOURCE, native.EXACT)
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
        library.hotlap_gae.argtypes, library.hotlap_gae.restype = [*[pointer] * 4, *[size] * 2, *[number] * 2], None
        library.hotlap_gae_seats.argtypes = [*[pointer] * 7, *[size] * 3, *[number] * 2]
        library.hotlap_gae_seats.restype = None
    return library

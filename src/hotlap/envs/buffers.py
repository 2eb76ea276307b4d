"""The arrays that environments write and trainers read: views of one block of memory, which worker processes may share.

What a step leaves behind lies in one of `depth` slots, used in turn. With a slot for each step of a rollout, the environments
write straight into the rollout.
"""

from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from numpy.typing import NDArray

ALIGNMENT = 64  # bytes: a cache line, so that workers do not write into each other's


@dataclass(frozen=True)
class Form:
    """What a row of a vector is made of."""

    obs_shape: tuple[int, ...]
    obs_dtype: str
    action_shape: tuple[int, ...]
    action_dtype: str
    choices: int = 0  # actions that a mask tells apart
    metrics: int = 0  # numbers of the game's own per episode
    seats: int = 1  # players who take turns in one row
    agents: int = 1  # rows of one environment, which act at the same time

    @classmethod
    def of(cls, game: Any) -> "Form":
        """From an environment's spaces and, if it has such, its `metric_names`, `seats` and `agent_rows`."""
        space, actions, base = game.observation_space, game.action_space, getattr(game, "unwrapped", game)
        if isinstance(actions, Discrete | MultiDiscrete):
            choices = int(actions.n if isinstance(actions, Discrete) else actions.nvec.sum())
        else:
            choices = 0
        return cls(
            obs_shape=tuple(space.shape),
            obs_dtype=np.dtype(space.dtype).str,
            action_shape=tuple(actions.shape or ()),
            action_dtype="<f4" if isinstance(actions, Box) else "<i8",
            choices=choices,
            metrics=len(getattr(base, "metric_names", ())),
            seats=getattr(base, "seats", 1),
            agents=getattr(base, "agent_rows", 1),
        )


@dataclass(frozen=True)
class Slot:
    """What a step leaves behind, a row per environment or agent. Rows of `final_*` and `episode_*` count where one ended.

    The first eight are what kernels fill, in the order of engine.c. `seat` says who acts next, `rewards` has one for each seat;
    `active` is false for an agent that waits for the others to end their episode.
    """

    obs: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_obs: NDArray[Any]
    episode_return: NDArray[np.float64]
    episode_length: NDArray[np.int64]
    episode_metrics: NDArray[np.float32]
    mask: NDArray[np.bool_]
    seat: NDArray[np.int8]
    rewards: NDArray[np.float32]
    active: NDArray[np.bool_]
    final_seat: NDArray[np.int8]
    episode_returns: NDArray[np.float64]

    def rows(self, begin: int, end: int) -> "Slot":
        """A part of it, for a worker."""
        return Slot(**{field.name: getattr(self, field.name)[begin:end] for field in fields(Slot)})


RINGS = ("obs", "reward", "terminated", "truncated", "mask", "seat", "rewards", "active")  # one for each slot; others in turn


class Arrays:
    """All arrays of `rows` rows: actions, and `depth` slots."""

    def __init__(self, form: Form, rows: int, depth: int, block: NDArray[np.uint8] | None = None) -> None:
        layout = _layout(form, rows, depth)
        block = np.zeros(nbytes(form, rows, depth), np.uint8) if block is None else block
        begin, found = 0, {}
        for name, (shape, dtype) in layout.items():
            size = prod(shape) * np.dtype(dtype).itemsize
            found[name] = block[begin : begin + size].view(dtype).reshape(shape)
            begin += _padded(size)
        self.actions, self.seeds = found.pop("actions"), found.pop("seeds")
        self.rings = {name: found[name] for name in RINGS}
        self.rings["mask"][:] = True
        self.slots = tuple(
            Slot(**{name: array[slot if name in RINGS else _turn(slot, depth)] for name, array in found.items()})
            for slot in range(depth)
        )


def _turn(slot: int, depth: int) -> int:
    """Which set of what only the last two steps need a slot uses: never that of the slot before it."""
    return 2 if depth % 2 and slot == depth - 1 else slot % 2


def _layout(form: Form, rows: int, depth: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    turns = rows if form.seats > 1 else 0
    return {
        "actions": ((rows, *form.action_shape), form.action_dtype),
        "seeds": ((rows,), np.uint64),
        "obs": ((depth, rows, *form.obs_shape), form.obs_dtype),
        "reward": ((depth, rows), np.float32),
        "terminated": ((depth, rows), np.bool_),
        "truncated": ((depth, rows), np.bool_),
        "mask": ((depth, rows, form.choices), np.bool_),
        "seat": ((depth, turns), np.int8),
        "rewards": ((depth, turns, form.seats), np.float32),
        "active": ((depth, rows if form.agents > 1 else 0), np.bool_),
        "final_obs": ((3, rows, *form.obs_shape), form.obs_dtype),
        "episode_return": ((3, rows), np.float64),
        "episode_length": ((3, rows), np.int64),
        "episode_metrics": ((3, rows, form.metrics), np.float32),
        "final_seat": ((3, turns), np.int8),
        "episode_returns": ((3, turns, form.seats), np.float64),
    }


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def nbytes(form: Form, rows: int, depth: int) -> int:
    """How large a block these arrays need."""
    return sum(_padded(prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in _layout(form, rows, depth).values())

"""The arrays that environments write and trainers read: views of one block of memory, which worker processes may share.

The results of a step go into one of `depth` slots of a ring. With a slot for each step of a rollout, the environments write
straight into the rollout.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.spec import EnvSpec

ALIGNMENT = 64  # bytes: a cache line, so that workers do not write into each other's


@dataclass(frozen=True)
class StepBuffers:
    """The results of a step, a row per environment or agent. `final_*` and `episode_*` are valid where an episode ended.

    In the order of engine.h's struct Batch. `seat` says who acts next, `rewards` has one for each seat;
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

    def rows(self, begin: int, end: int) -> "StepBuffers":
        """A part of it, for a worker."""
        return StepBuffers(**{field.name: getattr(self, field.name)[begin:end] for field in fields(StepBuffers)})


# One copy per slot; of the other arrays there are `FINALS` copies in all, or one per slot as well.
FINALS = 3
RINGS = ("obs", "reward", "terminated", "truncated", "mask", "seat", "rewards", "active")


class Arrays:
    """All arrays of `rows` rows: actions, and `depth` slots.

    `block`: the memory that they are views of, bytes of NumPy's or another library's, whose name of a type `kind` gives.
    """

    def __init__(
        self,
        spec: EnvSpec,
        rows: int,
        depth: int,
        block: Any = None,
        finals: int = FINALS,
        kind: Callable[[Any], Any] = np.dtype,
    ) -> None:
        layout = _layout(spec, rows, depth, finals)
        block = np.zeros(nbytes(spec, rows, depth, finals), np.uint8) if block is None else block
        begin, arrays = 0, {}
        for name, (shape, dtype) in layout.items():
            size = prod(shape) * np.dtype(dtype).itemsize
            arrays[name] = block[begin : begin + size].view(kind(dtype)).reshape(shape)
            begin += _padded(size)
        self.actions = arrays.pop("actions")
        self.rings = {name: arrays[name] for name in RINGS}
        self.rings["mask"][:] = True
        self.buffers = tuple(
            StepBuffers(
                **{name: array[slot if name in RINGS else _final_set(slot, depth, finals)] for name, array in arrays.items()}
            )
            for slot in range(depth)
        )
        self.finals = {name: array for name, array in arrays.items() if name not in RINGS}


def _final_set(slot: int, depth: int, finals: int) -> int:
    """Which of the copies of `final_*` and `episode_*` a slot uses: its own, or one that the slot before it does not use."""
    if finals == depth:
        return slot
    return 2 if depth % 2 and slot == depth - 1 else slot % 2


def _layout(spec: EnvSpec, rows: int, depth: int, finals: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    turn_rows = rows if spec.seats > 1 else 0
    return {
        "actions": ((rows, *spec.action_shape), spec.action_dtype),
        "obs": ((depth, rows, *spec.obs_shape), spec.obs_dtype),
        "reward": ((depth, rows), np.float32),
        "terminated": ((depth, rows), np.bool_),
        "truncated": ((depth, rows), np.bool_),
        "mask": ((depth, rows, spec.choices), np.bool_),
        "seat": ((depth, turn_rows), np.int8),
        "rewards": ((depth, turn_rows, spec.seats), np.float32),
        "active": ((depth, rows if spec.agents > 1 else 0), np.bool_),
        "final_obs": ((finals, rows, *spec.obs_shape), spec.obs_dtype),
        "episode_return": ((finals, rows), np.float64),
        "episode_length": ((finals, rows), np.int64),
        "episode_metrics": ((finals, rows, len(spec.metrics)), np.float32),
        "final_seat": ((finals, turn_rows), np.int8),
        "episode_returns": ((finals, turn_rows, spec.seats), np.float64),
    }


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def nbytes(spec: EnvSpec, rows: int, depth: int, finals: int = FINALS) -> int:
    """Size of the block of memory that these arrays need."""
    return sum(_padded(prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in _layout(spec, rows, depth, finals).values())

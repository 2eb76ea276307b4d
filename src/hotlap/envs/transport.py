"""How workers are told actions and tell results: through shared memory, or as pickles through their pipe.

Pickles are how Gymnasium's AsyncVectorEnv (without shared memory) and Stable-Baselines3's SubprocVecEnv do it. What they
cost is measured by setting one against the other (`--vary transport=shared,pipe`): all else is the same, the
results too.
"""

import pickle
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.buffers import Arrays, StepBuffers
from hotlap.envs.spec import EnvSpec

FIELDS = [field.name for field in fields(StepBuffers)]


@dataclass(frozen=True)
class Place:
    """A worker's rows, and the memory that all share."""

    spec: EnvSpec
    rows: int  # of all workers
    depth: int
    begin: int
    end: int
    block: NDArray[np.uint8]


@dataclass(frozen=True)
class Rows:
    """A worker's arrays."""

    actions: NDArray[Any]
    buffers: tuple[StepBuffers, ...]


class Transport(Protocol):
    """Both ends of it: the parent sends actions and takes results."""

    def worker_arrays(self, place: Place) -> Rows:
        """Where a worker finds the actions of its rows, and puts results."""

    def worker_slot(self, asked: int, last: int) -> int:
        """Which of the worker's slots a step goes into, from the parent's and from the worker's last one."""

    def restored(self, buffers: tuple[StepBuffers, ...]) -> None:
        """A worker's environments were put elsewhere; the parent knows where, and has checked the next actions."""

    def send_actions(self, actions: NDArray[Any]) -> bytes: ...

    def receive_actions(self, message: bytes, actions: NDArray[Any]) -> None: ...

    def send_results(self, results: StepBuffers) -> bytes: ...

    def take_results(self, message: bytes, results: StepBuffers) -> None: ...


class SharedMemory:
    """Both sides have the same arrays, so nothing is sent."""

    def worker_arrays(self, place: Place) -> Rows:
        shared = Arrays(place.spec, place.rows, place.depth, place.block)
        begin, end = place.begin, place.end
        return Rows(shared.actions[begin:end], tuple(step.rows(begin, end) for step in shared.buffers))

    def worker_slot(self, asked: int, last: int) -> int:
        return asked

    def restored(self, buffers: tuple[StepBuffers, ...]) -> None:
        pass

    def send_actions(self, actions: NDArray[Any]) -> bytes:
        return b""

    def receive_actions(self, message: bytes, actions: NDArray[Any]) -> None:
        pass

    def send_results(self, results: StepBuffers) -> bytes:
        return b""

    def take_results(self, message: bytes, results: StepBuffers) -> None:
        pass


class Pipe:
    """A worker has arrays of its own; actions and results are pickled."""

    def worker_arrays(self, place: Place) -> Rows:
        own = Arrays(place.spec, place.end - place.begin, 2)
        return Rows(own.actions, own.buffers)

    def worker_slot(self, asked: int, last: int) -> int:
        return 1 - last

    def restored(self, buffers: tuple[StepBuffers, ...]) -> None:
        for step in buffers:
            step.mask[:] = True

    def send_actions(self, actions: NDArray[Any]) -> bytes:
        return pickle.dumps(actions, pickle.HIGHEST_PROTOCOL)

    def receive_actions(self, message: bytes, actions: NDArray[Any]) -> None:
        actions[:] = pickle.loads(message)  # noqa: S301, of our own parent, over a private socket

    def send_results(self, results: StepBuffers) -> bytes:
        """Of a step; what is only valid where an episode ended goes along if one did."""
        ended = bool(np.any(results.terminated | results.truncated))
        sent = [name for name in FIELDS if ended or not name.startswith(("final_", "episode_"))]
        return pickle.dumps({name: getattr(results, name) for name in sent}, pickle.HIGHEST_PROTOCOL)

    def take_results(self, message: bytes, results: StepBuffers) -> None:
        for name, values in pickle.loads(message).items():  # noqa: S301, of our own worker
            getattr(results, name)[:] = values


TRANSPORTS: dict[str, Transport] = {"shared": SharedMemory(), "pipe": Pipe()}

"""How to read what an environment's step returned: observation, rewards, and which episodes ended.

The tuples of Gymnasium are read here, with everything that people put into them: numbers, arrays, lists, tensors,
dictionaries by agent. A framework that returns something else has a reader of its own, in its own file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

NONE: Iterable[int] = ()


def attribute(env: Any, name: str) -> Any:
    """An attribute of the environment itself, or None. Wrappers are not asked to pass it on: some print a warning then."""
    try:
        return object.__getattribute__(env, name)
    except Exception:  # whatever a property raises
        return None


@dataclass(frozen=True)
class StepReader:
    """Functions of an environment and of what its step returned."""

    ended: Callable[[Any, Any], Iterable[int]]  # the numbers of the environments in it whose episodes ended
    rewards: Callable[[Any, Any], list[float]]  # one per environment in it
    observation: Callable[[Any], Any]  # of the result alone: an array or a tensor, of several parts the first


def _ended(env: Any, result: Any) -> Iterable[int]:
    """observation, reward, done[, truncated][, info]"""
    if not isinstance(result, tuple) or len(result) not in (3, 4, 5):
        return NONE
    done: Any = result[2]
    truncated: Any = result[3] if len(result) == 5 else False
    if isinstance(done, list):
        return [number for number, over in enumerate(done) if over]
    if getattr(done, "ndim", 0) and hasattr(done, "tobytes"):
        if done.dtype.itemsize > 1:  # numbers for yes and no
            return which(done if truncated is False else (done != 0) | (truncated != 0))
        if b"\x01" not in done.tobytes() and (truncated is False or b"\x01" not in truncated.tobytes()):
            return NONE  # by far the most frequent case, and ten times faster than asking numpy
        return which(done if truncated is False else done | truncated)
    if isinstance(done, dict):  # by agent; the episode ends for all
        return (0,) if done and all(done[agent] or (truncated and truncated.get(agent)) for agent in done) else NONE
    if hasattr(done, "is_cuda"):
        return NONE if done.is_cuda else which_of_tensor(done if truncated is False else done | truncated)
    return (0,) if done or truncated else NONE


def _rewards(env: Any, result: Any) -> list[float]:
    if not isinstance(result, tuple) or len(result) < 3:
        return [0.0]
    return as_floats(sum(result[1].values()) if isinstance(result[1], dict) else result[1])


def _observation(result: Any) -> Any:
    observation = result[0] if isinstance(result, tuple) and result else result
    return next(iter(observation.values()), None) if isinstance(observation, dict) else observation


TUPLES = StepReader(_ended, _rewards, _observation)


def which(done: Any) -> Iterable[int]:
    """The places in an array that are not zero."""
    return [int(number) for number in done.ravel().nonzero()[0]]


def which_of_tensor(done: Any) -> Iterable[int]:
    if done is None or done.is_cuda:  # reading it would make the host wait for the device
        return NONE
    return which(done.detach().__array__())


def as_floats(values: Any) -> list[float]:
    """A number, or an array, tensor or list of any shape, as a flat list."""
    if hasattr(values, "detach"):
        values = values.detach()
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [number for value in values for number in as_floats(value)]
    return [float(values)]

"""Whether the step of a user's own class returned a transition, and which of its parts say what.

Most return observation, reward and done in this order. In any other order the parts are known by their types: what says yes or
no ends the episode, the number beside it is the reward, and an array is what was observed. Some return no observation:
`reward, over, score = game.play_step(action)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from hotlap.probe.results import TUPLES, StepReader

_REPORTED = (2, 3, 4, 5, 6)  # observation, reward, done, and perhaps truncated, or more; or reward and done alone
_BY_AGENT = (-1, -1)


class _Numbers(NamedTuple):
    shape: tuple[int, ...]
    values: list[float]

    @property
    def are_flags(self) -> bool:
        return all(isinstance(value, bool) for value in self.values)


@dataclass(frozen=True)
class Transition:
    """The places of its parts in a tuple."""

    observation: int | None  # None: it is asked for elsewhere
    reward: int
    over: tuple[int, ...]  # an episode has ended if one of these says so
    length: int

    @property
    def reader(self) -> StepReader:
        if self == Transition(0, 1, (2, 3) if self.length == 5 else (2,), self.length) and self.length <= 5:
            return TUPLES
        return StepReader(self._ended, self._rewards, self._observation)

    def steps(self, env: Any, action: Any, result: Any) -> int:
        """How many environments a step moved: as many as there are rewards."""
        reward = result[self.reward]
        shape = getattr(reward, "shape", ())
        return int(shape[0]) if shape else len(reward) if isinstance(reward, list) else 1

    def _usual(self, result: Any) -> Any:
        """The same in the order of Gymnasium."""
        if not isinstance(result, tuple) or len(result) != self.length:
            return None
        flags = [result[place] for place in self.over[:2]]
        observation = None if self.observation is None else result[self.observation]
        return (observation, result[self.reward], *flags, *([{}] if len(flags) == 2 else []))

    def _ended(self, env: Any, result: Any) -> Iterable[int]:
        return TUPLES.ended(env, self._usual(result))

    def _rewards(self, env: Any, result: Any) -> list[float]:
        return TUPLES.rewards(env, self._usual(result))

    def _observation(self, result: Any) -> Any:
        return TUPLES.observation(self._usual(result))


def transition_of(result: Any, named_so: bool = True) -> Transition | None:
    """What a function returned that is named like a step; of any other, only the usual order and plain flags are believed."""
    if not isinstance(result, tuple) or len(result) not in _REPORTED:
        return None
    parts = [_numbers(part) for part in result]
    usual = _in_usual_order(parts) if len(parts) > 2 else None
    if named_so:
        return usual or _by_types(parts, result)
    done = parts[2] if usual is not None else None
    is_sure = done is not None and done.are_flags and bool(getattr(result[0], "shape", None))
    return usual if is_sure else None


def _in_usual_order(parts: list[_Numbers | None]) -> Transition | None:
    first, rewards, dones, *others = parts
    if rewards is None or rewards.are_flags or dones is None or dones.shape not in (rewards.shape, ()):
        return None
    if first is not None and first.are_flags and first.shape == dones.shape:  # done comes first
        return None
    if not all(done in (0, 1) for done in dones.values):
        return None
    if not dones.are_flags and any(part is not None and part.are_flags for part in others):  # a state was put before the rest
        return None
    truncated = others[0] if others else None
    cut = truncated is not None and truncated.are_flags and truncated.shape == dones.shape
    return Transition(0, 1, (2, 3) if cut else (2,), len(parts))


def _by_types(parts: list[_Numbers | None], result: tuple[Any, ...]) -> Transition | None:
    known = {place: part for place, part in enumerate(parts) if part is not None}
    shape = next((part.shape for part in known.values() if part.are_flags), None)
    fitting = [place for place, part in known.items() if part.shape == shape]
    over = tuple(place for place in fitting if known[place].are_flags)
    reward = next((place for place in fitting if place not in over), None)
    flags = [place for place, part in known.items() if part.are_flags]  # a mask of actions is no observation
    seen = [place for place, part in enumerate(result) if place not in (*fitting, *flags) and getattr(part, "shape", None)]
    if reward is None or not (seen or (shape == () and len(over) == 1 and len(fitting) == len(parts))):
        return None
    return Transition(seen[0] if seen else None, reward, over, len(parts))


def _numbers(value: Any) -> _Numbers | None:
    """A number, or a row of them in an array, a tensor, a list or a dictionary by agent; None for anything else."""
    with suppress(Exception):  # strange objects must never be the script's trouble
        if hasattr(value, "tolist"):
            shape = tuple(value.shape)
            values = value.tolist() if len(shape) == 1 else [value.tolist()]
        elif isinstance(value, dict):  # by agent; whether all are done may stand beside them
            shape, values = _BY_AGENT, [item.item() if hasattr(item, "item") else item for item in value.values()]
        elif isinstance(value, (list, tuple)):
            shape = (len(value),)
            values = [item.tolist() if hasattr(item, "tolist") else item for item in value]
        else:
            shape, values = (), [value]
        if values and (len(shape) < 2 or shape == _BY_AGENT) and all(isinstance(item, (bool, int, float)) for item in values):
            return _Numbers(shape, values)
    return None

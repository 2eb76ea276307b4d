"""`stacks.json`: the stacks that the sampler saw, frames once, stacks as the numbers of their frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hotlap.record import codec
from hotlap.record.codec import was
from hotlap.record.files import STACKS


@dataclass(frozen=True)
class Frame:
    name: str
    file: str = ""
    line: int = 0
    user: bool = field(default=False, metadata=was("own"))  # whether it is the user's code, not a library's


@dataclass(frozen=True)
class Stack:
    """One stack, outermost frame first, and for how long it was seen."""

    stage: str
    frames: tuple[Frame, ...]
    places: tuple[int, ...]  # of its frames in the list of all
    seconds: float
    native: float = 0.0  # seconds of these in native code
    waited: float = 0.0  # seconds of these in one long native call, or asleep


@dataclass(frozen=True)
class Stacks:
    frames: tuple[Frame, ...] = ()
    stacks: tuple[Stack, ...] = ()


# On disk: stage, places, seconds, native and waited seconds. Version 0.1.0 wrote fewer; what it called native is what waited.
_Row = tuple[str, tuple[int, ...], float, float, float]
_OldRow = tuple[str, tuple[int, ...], float, float]
_ShortRow = tuple[str, tuple[int, ...], float]


@dataclass(frozen=True)
class _File:
    frames: tuple[Frame, ...]
    stacks: tuple[_Row | _OldRow | _ShortRow, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= place < len(self.frames) for _, places, *_ in self.stacks for place in places):
            raise ValueError("a stack names a frame that is not in the list")
        if any(min(times) < 0 for _, _, *times in self.stacks):
            raise ValueError("a stack was seen for less than no time")


def read_stacks(folder: Path) -> Stacks | None:
    """The stacks of a run; None where no sampler ran."""
    path = folder / STACKS
    if not path.exists():
        return None
    content = codec.from_json(_File, codec.read(path), path)
    stacks = []
    for stage, places, *times in content.stacks:
        if len(times) == 2:
            times.append(times[1])
        stacks.append(Stack(stage, tuple(content.frames[place] for place in places), places, *times))
    return Stacks(content.frames, tuple(stacks))

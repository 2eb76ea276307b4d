"""The stack samples of a run and the user's code, strictly read from its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.errors import RecordError
from hotlap.core.paths import STEP_METHODS
from hotlap.interventions.code import Code
from hotlap.record import codec
from hotlap.record.codec import was
from hotlap.record.files import SOURCES, STACKS
from hotlap.record.run import Run

_STEPPING = (*STEP_METHODS, "reset", "step_wait", "_step", "_reset", "step_async", "step_and_maybe_reset")


@dataclass(frozen=True)
class Frame:
    name: str
    file: str
    line: int
    user: bool = field(default=False, metadata=was("own"))  # whether it is the user's code, not a library's


@dataclass(frozen=True)
class StackSample:
    """A stack that the sampler saw, outermost frame first, and for how long."""

    stage: str
    frames: tuple[Frame, ...]
    seconds: float
    native: float = 0.0  # seconds of these in native code

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of user code."""
        return next((frame for frame in reversed(self.frames) if frame.user), None)

    def below_step(self) -> tuple[Frame, ...]:
        """The frames of environments: from the first `step` or `reset` on."""
        for place, frame in enumerate(self.frames):
            if frame.name in _STEPPING:
                return self.frames[place:]
        return ()


_Stack = tuple[str, tuple[int, ...], float, float]  # stage, frames by their place in the list, seconds, native seconds
_ShortStack = tuple[str, tuple[int, ...], float]  # records of version 0.1.0


@dataclass(frozen=True)
class _StackFile:
    frames: tuple[Frame, ...]
    stacks: tuple[_Stack | _ShortStack, ...]


def read_stack_samples(run: Run) -> tuple[StackSample, ...]:
    """All stacks that were sampled; none where no sampler ran."""
    path = run.path / STACKS
    if not path.exists():
        return ()
    content = codec.from_json(_StackFile, codec.read(path), path)
    return tuple(_sample(content.frames, stack, path) for stack in content.stacks)


def _sample(frames: tuple[Frame, ...], stack: _Stack | _ShortStack, path: Path) -> StackSample:
    stage, places, *seconds = stack
    if not all(0 <= place < len(frames) for place in places):
        raise RecordError(f"{path} is damaged: a stack names a frame that is not in the list")
    return StackSample(stage, tuple(frames[place] for place in places), *seconds)


def read_codes(run: Run) -> dict[str, Code]:
    """The user's files as they were when they were profiled, by name."""
    path = run.path / SOURCES
    if not path.exists():
        return {}
    texts = codec.from_json(dict[str, str], codec.read(path), path)
    return {name: Code(text) for name, text in texts.items()}

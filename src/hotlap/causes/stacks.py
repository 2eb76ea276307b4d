"""The stack samples of a run and the user's code, strictly read from its folder."""

from __future__ import annotations

from dataclasses import dataclass

from hotlap.core.paths import BACKWARD, OPTIMIZER, STEP_METHODS
from hotlap.interventions.code import Code
from hotlap.record import codec
from hotlap.record.files import SOURCES
from hotlap.record.run import Run
from hotlap.record.stacks import Frame, read_stacks

_STEPPING = frozenset((*STEP_METHODS, "reset", "step_wait", "_step", "_reset", "step_async", "step_and_maybe_reset"))


@dataclass(frozen=True)
class StackSample:
    """A stack that the sampler saw, outermost frame first, and for how long."""

    stage: str
    frames: tuple[Frame, ...]
    seconds: float
    native: float = 0.0  # seconds of these in native code
    waited: float = 0.0  # seconds of these in one long native call, or asleep
    stepping: frozenset[str] = _STEPPING  # what functions are called that step and reset environments

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of user code."""
        return next((frame for frame in reversed(self.frames) if frame.user), None)

    def learns(self) -> bool:
        """Whether gradients were computed or torch's optimizer made a step; one that is written by hand is work."""
        by_hand = bool(self.frames) and self.frames[-1].user
        return self.stage == BACKWARD or (self.stage == OPTIMIZER and not by_hand)

    def below_step(self) -> tuple[Frame, ...]:
        """The frames of environments: from the first `step` or `reset` on."""
        for place, frame in enumerate(self.frames):
            if frame.name in self.stepping:
                return self.frames[place:]
        return ()


def read_stack_samples(run: Run) -> tuple[StackSample, ...]:
    """All stacks that were sampled; none where no sampler ran."""
    sampled = read_stacks(run.path)
    stacks = sampled.stacks if sampled else ()
    stepping = _STEPPING.union(run.header.observed.step_names)
    return tuple(StackSample(s.stage, s.frames, s.seconds, s.native, s.waited, stepping) for s in stacks)


def read_codes(run: Run) -> dict[str, Code]:
    """The user's files as they were when they were profiled, by name."""
    path = run.path / SOURCES
    if not path.exists():
        return {}
    texts = codec.from_json(dict[str, str], codec.read(path), path)
    return {name: Code(text) for name, text in texts.items()}

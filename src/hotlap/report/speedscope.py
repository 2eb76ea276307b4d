"""A run's stack samples in speedscope's format: each stage is the root of the stacks seen in it."""

import json
from dataclasses import dataclass, field

from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.files import STACKS
from hotlap.report.sections import Report
from hotlap.report.trace import profiled

# A stack: its stage, its frames by their place in the list of frames, its seconds, and (not in 0.1.0) those in native code.
Stack = tuple[str, tuple[int, ...], float, float]
ShortStack = tuple[str, tuple[int, ...], float]


@dataclass(frozen=True)
class SampledFrame:
    name: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Stacks:
    frames: tuple[SampledFrame, ...]
    stacks: tuple[Stack | ShortStack, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= i < len(self.frames) for _, stack, *_ in self.stacks for i in stack):
            raise ValueError("a stack has a frame that is not in the list")


@dataclass(frozen=True)
class Sampled:
    """A profile of speedscope's: `samples` are stacks of frame numbers, outermost first."""

    name: str
    endValue: float  # speedscope's names
    samples: list[list[int]] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    type: str = "sampled"
    unit: str = "seconds"
    startValue: float = 0.0


def as_speedscope(report: Report) -> str:
    run = profiled(report, "speedscope")
    path = run.path / STACKS
    if not path.exists():
        raise RecordError(f"{run.path} has no sampled stacks; profile a script without --no-lines")
    sampled = codec.from_json(Stacks, codec.read(path), path)
    frames = [frame_document(frame) for frame in sampled.frames]
    roots: dict[str, int] = {}
    for stage in dict.fromkeys(stage for stage, *_ in sampled.stacks):
        roots[stage] = len(frames)
        frames.append({"name": stage or "no stage"})
    weights = [max(stack[2], 0.0) for stack in sampled.stacks]
    samples = [[roots[stack[0]], *stack[1]] for stack in sampled.stacks]
    profile = Sampled(run.header.target, sum(weights), samples, weights)
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"hotlap {run.header.target}",
        "shared": {"frames": frames},
        "profiles": [codec.to_json(profile)],
    }
    return json.dumps(document)


def frame_document(frame: SampledFrame) -> dict[str, str | int]:
    """A frame without the fields that are not known."""
    return {name: value for name, value in vars(frame).items() if value is not None}

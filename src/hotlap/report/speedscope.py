"""A run's stack samples in speedscope's format: each stage is the root of the stacks seen in it."""

import json
from dataclasses import dataclass, field

from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.stacks import read_stacks
from hotlap.report.sections import Report
from hotlap.report.trace import profiled


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
    sampled = read_stacks(run.path)
    if sampled is None:
        raise RecordError(f"{run.path} has no sampled stacks; profile a script without --no-lines")
    frames: list[dict[str, str | int]] = [{"name": f.name, "file": f.file, "line": f.line} for f in sampled.frames]
    roots: dict[str, int] = {}
    for stage in dict.fromkeys(stack.stage for stack in sampled.stacks):
        roots[stage] = len(frames)
        frames.append({"name": stage or "no stage"})
    weights = [stack.seconds for stack in sampled.stacks]
    samples = [[roots[stack.stage], *stack.places] for stack in sampled.stacks]
    profile = Sampled(run.header.target, sum(weights), samples, weights)
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"hotlap {run.header.target}",
        "shared": {"frames": frames},
        "profiles": [codec.to_json(profile)],
    }
    return json.dumps(document)

"""Processes that learn: what each leaves of itself beside its samples (`learner.json` in its folder, `probe/worker.py`), and
what the record says about all of them (`learners.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.words import Word
from hotlap.record import codec
from hotlap.record.codec import FLAT
from hotlap.record.observed import Observed

LEARNER = "learner.json"


class LearnerKind(Word):
    """Where training runs."""

    SCRIPT = "script"  # the script's own process
    PROCESS = "process"  # one that it started
    RAY = "ray"  # an actor or a worker of Ray's


@dataclass(frozen=True)
class LearnerSeen:
    kind: LearnerKind = LearnerKind.PROCESS
    world_size: int = 1  # processes that average their gradients: together they make one update
    observed: Observed = field(default_factory=Observed, metadata=FLAT)


@dataclass(frozen=True)
class LearnerTimes:
    """A process that learns: what it did per second after warm-up, and where its time went."""

    kind: LearnerKind
    updates: float  # in all
    env_steps: float
    updates_per_s: float
    env_steps_per_s: float
    collect_share: float
    update_share: float
    wait_share: float
    cpu_share: float


@dataclass(frozen=True)
class Learners:
    """Training outside of the script's own process, or in it and elsewhere."""

    each: dict[str, LearnerTimes]  # by process; the script's own is "script"
    shown: str  # whose windows and lines the record shows
    world_size: int = 1  # processes that average their gradients: together they make one update
    script_cpu: float | None = None  # cores that the script's own process used meanwhile

    @property
    def in_ray(self) -> bool:
        return any(times.kind is LearnerKind.RAY for times in self.each.values())


def write_learner(folder: Path, seen: LearnerSeen) -> None:
    """Called in the process that learns, now and then and at its end."""
    part = folder / f".{LEARNER}.part"
    part.write_text(json.dumps(codec.to_json(seen)))
    part.replace(folder / LEARNER)


def read_learner(folder: Path) -> LearnerSeen:
    """What a learner left; nothing, if it was killed early."""
    path = folder / LEARNER
    return codec.from_json(LearnerSeen, codec.read(path), path) if path.exists() else LearnerSeen()

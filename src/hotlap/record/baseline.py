"""A baseline file: the costs of saved runs, small enough to live in git. The gate for CI compares against it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.header import Status, Verb
from hotlap.record.machine import Machine
from hotlap.record.run import write_atomically

SCHEMA = "hotlap.baseline/1"


@dataclass(frozen=True)
class CostSeries:
    """The cost of a run's windows, in seconds per unit of work: in all, and by stage (exclusive)."""

    target: str
    created: str
    config: dict[str, Any]
    unit: str
    whole: tuple[float, ...]
    stages: dict[str, tuple[float, ...]]
    memory: int
    machine: Machine = field(default_factory=Machine)
    verb: Verb | None = None
    status: Status = Status.DONE

    def __post_init__(self) -> None:
        if not self.whole or min(self.whole) <= 0:
            raise ValueError("a run needs costs above 0")
        if any(len(costs) != len(self.whole) for costs in self.stages.values()):
            raise ValueError("every stage needs as many costs as the whole")
        if self.memory < 0:
            raise ValueError("memory must not be negative")


@dataclass(frozen=True)
class Baseline:
    schema: str
    created: str
    runs: tuple[CostSeries, ...]


def read_baseline(path: Path) -> tuple[CostSeries, ...]:
    document = codec.read(path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise RecordError(f"{path} has schema {str(schema)[:80]!r}; this version of hotlap reads {SCHEMA!r}")
    runs = codec.from_json(Baseline, document, path).runs
    if not runs:
        raise RecordError(f"{path} is damaged: it has no runs")
    return runs


def write_baseline(path: Path, runs: Sequence[CostSeries]) -> None:
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    write_atomically(path, json.dumps(codec.to_json(Baseline(SCHEMA, created, tuple(runs))), indent=1) + "\n")

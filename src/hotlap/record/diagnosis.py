"""What `hotlap diagnose` says about a run: its findings, the most promising first."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotlap.record.codec import FLAT
from hotlap.record.finding import Finding
from hotlap.record.profile import StageTime, Throughput
from hotlap.record.run import Identity

SCHEMA = "hotlap.diagnose/2"


@dataclass(frozen=True)
class Diagnosis:
    identity: Identity = field(metadata=FLAT)
    findings: tuple[Finding, ...]
    throughput: Throughput
    stages: dict[str, StageTime]
    warnings: tuple[str, ...] = ()
    schema: str = SCHEMA

"""An interleaved run on disk: its plan, its variants, and `blocks.jsonl`, one line per block, written as soon as it is over.

A round is a set of fresh processes, one per variant, that work a block each, in random order, again and again. Reading is
strict; a line that was cut off by a kill is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.codec import was

BLOCKS = "blocks.jsonl"
CONTROL = "control: "  # before the name of a variant that runs once more, against itself
MOST_BLOCKS = 100_000
MOST_NAMES = 500  # stages, and counts, of one block
MOST_LINE = 1_000_000  # bytes


@dataclass(frozen=True)
class Block:
    """What one process did when it was its time to work. Times are seconds; `paused` of them were spent with hooks paused, and
    for `queued` of them other programs had the core."""

    wall: float
    paused: float = field(default=0.0, metadata=was("bare"))
    counts: dict[str, float] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)  # exclusive, of the part that was measured
    rss: int = 0  # bytes at the end, of the process and all that it started
    queued: float = 0.0

    def __post_init__(self) -> None:
        if not (self.wall > 0 and 0 <= self.paused <= self.wall * 1.001):
            raise ValueError("a block needs a wall time above 0, and less than that with hooks paused")
        if not 0 <= self.queued < self.wall:
            raise ValueError("a block cannot wait for other programs longer than it lasts")
        if len(self.counts) > MOST_NAMES or len(self.stages) > MOST_NAMES:
            raise ValueError(f"more than {MOST_NAMES} stages or counts")

    @property
    def worked(self) -> float:
        """Seconds that a neighbour's load does not change: without those for which other programs had the core."""
        return self.wall - self.queued

    @property
    def measured(self) -> float:
        """Seconds in which the stages were timed."""
        return self.wall - self.paused


@dataclass(frozen=True)
class BlockLine:
    """A block as it is recorded: its round, its variant, and its place among that variant's blocks."""

    round: int
    number: int = field(metadata=was("turn"))
    variant: str = field(metadata=was("side"))
    block: Block


@dataclass(frozen=True)
class Schedule:
    """How rounds are made up."""

    block: float = 0.5  # seconds of a block, at least
    blocks: int = field(default=6, metadata=was("turns"))  # per round and variant
    warmup: int = 2  # iterations or windows before the first block, once learning has begun
    round: float = 20.0  # seconds after which a round has blocks enough, two at least: several rounds say more than one
    seed: int = 0  # of the order of blocks, and of systems: each round has its own


@dataclass(frozen=True)
class Plan:
    """How long to measure: until every interval is this narrow, or the time is spent."""

    budget: float = 120.0  # seconds
    precision: float = 0.02
    control: bool = True
    schedule: Schedule = field(default_factory=Schedule, metadata=was("race"))
    clear: float | None = None  # stop after two rounds if every interval lies beyond this effect, or within the precision


@dataclass(frozen=True)
class VariantRecord:
    """A variant as a record keeps it: no path of the machine, and no secret."""

    name: str
    target: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    env_only: bool = False
    algorithm: str | None = None
    system: str | None = None
    script: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InterleavedConfig:
    """The config of a comparison or a sweep."""

    plan: Plan
    variants: tuple[VariantRecord, ...]

    def __post_init__(self) -> None:
        if len(self.variants) < 2:
            raise ValueError("an interleaved run needs at least two variants")
        if len({variant.name for variant in self.variants}) < len(self.variants):
            raise ValueError("two variants have the same name")


def append_block(folder: Path, line: BlockLine) -> None:
    path = folder / BLOCKS
    try:
        with path.open("a") as file:
            file.write(json.dumps(codec.to_json(line), separators=(",", ":")) + "\n")
    except OSError as error:
        raise RecordError(f"cannot write to {path}: {error.strerror}; blocks before this one are kept") from error


def read_blocks(folder: Path) -> list[BlockLine]:
    """All blocks of an interleaved run; none if it has not got that far."""
    path = folder / BLOCKS
    if not path.exists():
        return []
    lines = []
    for number, text in enumerate(_whole_lines(path), 1):
        if number > MOST_BLOCKS:
            raise RecordError(f"{path} is damaged: more than {MOST_BLOCKS:,} blocks")
        where = f"{path} line {number}"
        lines.append(codec.from_json(BlockLine, codec.loads(text, where), where))
    return lines


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while text := file.readline(MOST_LINE):
                if text.endswith(b"\n"):
                    yield text
                elif len(text) >= MOST_LINE:
                    raise RecordError(f"{path} is damaged: a line of more than {MOST_LINE:,} bytes")
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error

"""`episodes.jsonl`: the episodes of the last evaluation, kept so that they can be played again.

The first line says which environment it was; each line after it is one episode: its seed, every action, and what came of it.
An environment is deterministic given these, so nothing else is kept. The file is replaced as a whole by the next evaluation. It
ends before it would exceed `MOST_BYTES`; episodes after that are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError
from hotlap.record import codec
from hotlap.record.files import EPISODES
from hotlap.record.run import write_atomically

SCHEMA = "hotlap.episodes/1"
MOST_BYTES = 64_000_000
POLICY = "policy"  # who plays a seat, if it is not a bot

Action = Any  # a whole number, or a list of numbers


@dataclass(frozen=True)
class EnvSource:
    """Which environment: a game of hotlap's by its name, or one of Gymnasium's or PettingZoo's by its id."""

    game: str
    gym: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.game or self.gym


@dataclass(frozen=True)
class Episode:
    """One episode. `actions` has a row per step: one action, or, where agents act at the same time, one for each."""

    number: int  # from 0
    seed: int
    actions: tuple[Any, ...]
    returns: tuple[float, ...]  # of each seat or agent; else of the one player
    players: tuple[str, ...] = (POLICY,)  # who played each seat or agent: the policy, or a bot by its name
    metrics: dict[str, tuple[float, ...]] = field(default_factory=dict)  # the game's own; of each agent, else one
    score: float | None = None  # of the policy, in games of several seats: 1 for a win, 0 for a loss
    reset_options: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.actions or not self.returns or len(self.players) != len(self.returns):
            raise ValueError("an episode needs actions, and a return for each of its players")
        if self.number < 0 or self.seed < 0:
            raise ValueError("an episode's number and seed are at least 0")
        if not all(_is_action(action) for action in self.actions):
            raise ValueError("actions are numbers, or lists of numbers")

    @property
    def length(self) -> int:
        return len(self.actions)

    @property
    def policy_return(self) -> float:
        """Of the seat that the policy played; of several agents, their mean."""
        own = [value for value, player in zip(self.returns, self.players) if player == POLICY]
        return sum(own) / len(own) if own else 0.0


@dataclass(frozen=True)
class Kept:
    """The episodes of an evaluation."""

    source: EnvSource
    episodes: tuple[Episode, ...]


@dataclass(frozen=True)
class _Head:
    schema: str
    source: EnvSource


def _is_action(action: Any, depth: int = 0) -> bool:
    if isinstance(action, (list, tuple)):
        return depth < 3 and all(_is_action(part, depth + 1) for part in action)
    return isinstance(action, (int, float)) and not isinstance(action, bool)


def write(folder: Path, kept: Kept) -> None:
    """Replace the episodes that a run keeps, by as many of these as fit."""
    lines = [json.dumps(codec.to_json(_Head(SCHEMA, kept.source)), separators=(",", ":"))]
    size = len(lines[0])
    for episode in kept.episodes:
        line = json.dumps(codec.to_json(episode), separators=(",", ":"))
        if (size := size + len(line) + 1) > MOST_BYTES:
            break
        lines.append(line)
    write_atomically(folder / EPISODES, "\n".join(lines) + "\n")


def read(folder: Path) -> Kept:
    """The episodes that a run kept."""
    path = folder / EPISODES
    if not path.is_file():
        raise RecordError(f"{folder} kept no episodes: only a training run that was evaluated has some")
    try:
        if (size := path.stat().st_size) > 2 * MOST_BYTES:
            raise RecordError(f"{path} is no file of hotlap's: {size:,} bytes")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    if not lines:
        raise RecordError(f"{path} is damaged: it is empty")
    head = codec.from_json(_Head, codec.loads(lines[0], f"{path} line 1"), f"{path} line 1")
    if head.schema != SCHEMA:
        raise RecordError(f"{path} has schema {head.schema[:80]!r}; this version of hotlap reads {SCHEMA!r}")
    if bool(head.source.game) == bool(head.source.gym):
        raise RecordError(f"{path} line 1 is damaged: it must name one environment")
    return Kept(head.source, tuple(_episode(line, f"{path} line {i}") for i, line in enumerate(lines[1:], 2)))


def _episode(line: bytes, where: str) -> Episode:
    return codec.from_json(Episode, codec.loads(line, where), where)


def in_order(episodes: Sequence[Episode]) -> list[Episode]:
    """From the worst to the best: by score where there is one, then by the policy's return."""
    return sorted(episodes, key=lambda episode: (episode.score or 0.0, episode.policy_return, episode.number))

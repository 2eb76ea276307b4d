"""What a script did outside of its own files: to a database, over the network, to files that were there before, by programs.

Each call is written at once, a line of JSON, so that a script that is killed, and processes that it forked, leave theirs too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from hotlap.core.words import Word

FILE = "effects.jsonl"  # in the run's folder until hotlap has read it
MOST = 200  # that are kept


class EffectKind(Word):
    DATABASE = "database"  # on a server
    DATABASE_FILE = "database file"
    NETWORK = "network"
    FILES = "files"  # that were there before: deleted, moved
    PROGRAM = "program"
    TRACKER = "tracker"
    DEVICE = "device"
    HARMLESS = "harmless"  # a call that could have been one of these, and was not: a database in memory, `git rev-parse`


CONTAINED = (EffectKind.DATABASE_FILE, EffectKind.FILES)  # in a scratch, where files are its own


@dataclass(frozen=True)
class Effect:
    """One call. `what` names a host, a file or a program, never more: addresses and arguments may hold secrets."""

    kind: EffectKind
    where: str  # file:line of the user's code that led to it
    what: str = ""


def append(path: str, effect: Effect) -> None:
    """The file is there before the script runs: one that appears while the script removes its folder would stop it."""
    line = json.dumps(asdict(effect)).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def take(folder: Path) -> tuple[Effect, ...]:
    """What the script's processes left, each call once; the file is taken away. What cannot be read is left out."""
    try:
        lines: Iterable[str] = (folder / FILE).read_text(errors="replace").splitlines()[: 100 * MOST]
        (folder / FILE).unlink()
    except OSError:
        return ()
    effects: dict[Effect, None] = {}
    for line in lines:
        try:
            document = json.loads(line)
            effect = Effect(EffectKind(document["kind"]), str(document["where"])[:500], str(document["what"])[:500])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        effects[effect] = None
    return tuple(effects)[:MOST]

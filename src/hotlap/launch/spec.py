"""What a child is told: which target to run, in which mode. A JSON file, which the child removes once it has read it.

Standard library only: the child reads it in the user's interpreter.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Union

from hotlap.core.words import Word
from hotlap.probe.options import ProbeOptions
from hotlap.target.target import Script, System, Target


class Mode(Word):
    PROFILE = "profile"
    BLOCKS = "blocks"
    CURVE = "curve"
    HELP = "help"


@dataclass(frozen=True)
class ProfileSettings:
    """Measure a script, window by window, into a record."""

    run: str  # folder of the record
    options: ProbeOptions
    patience: float | None = None  # seconds that training may take to begin

    mode = Mode.PROFILE


@dataclass(frozen=True)
class BlockSettings:
    """Work a block at a time, when told to."""

    seconds: float  # of a block, at least
    warmup: int

    mode = Mode.BLOCKS


@dataclass(frozen=True)
class CurveSettings:
    """Run for what is learned: episodes and first losses."""

    steps: float
    seconds: float
    losses: int
    episodes: bool

    mode = Mode.CURVE


@dataclass(frozen=True)
class HelpSettings:
    """Let a script print its help, and measure nothing."""

    mode = Mode.HELP


Settings = Union[ProfileSettings, BlockSettings, CurveSettings, HelpSettings]


def _settings(mode: Mode, values: dict[str, Any]) -> Settings:
    if mode is Mode.PROFILE:
        return ProfileSettings(values["run"], ProbeOptions(**values["options"]), values["patience"])
    kinds = {Mode.BLOCKS: BlockSettings, Mode.CURVE: CurveSettings, Mode.HELP: HelpSettings}
    settings: Settings = kinds[mode](**values)
    return settings


def write_spec(path: Path, text: str) -> None:
    """Only the user may read it: it holds the script's arguments as they are."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


@dataclass(frozen=True)
class Spec:
    target: Target
    settings: Settings
    tell: int  # descriptor: messages of the child
    go: int | None = None  # descriptor: a byte for each block that it may work

    def to_json(self) -> str:
        document: dict[str, Any] = {
            "mode": self.settings.mode.value,
            "kind": "system" if isinstance(self.target, System) else "script",
            "target": {**asdict(self.target)},
            "settings": asdict(self.settings),
            "tell": self.tell,
            "go": self.go,
        }
        return json.dumps(document)

    @classmethod
    def take(cls, path: Path) -> Spec:
        """Read it, and remove it: it holds paths of this machine."""
        document = json.loads(path.read_text())
        path.unlink()
        target = document["target"]
        is_system = document["kind"] == "system"
        return cls(
            System(**target) if is_system else Script(target["path"], target["module"], tuple(target["arguments"])),
            _settings(Mode(document["mode"]), document["settings"]),
            document["tell"],
            document["go"],
        )

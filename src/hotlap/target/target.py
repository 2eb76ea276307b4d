"""What is measured: a user's script, or one of hotlap's systems; and a variant, which is a target with its environment.

Standard library only: the child process reads its own target from here, in the user's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from hotlap.core import secrets

if TYPE_CHECKING:
    from hotlap.target.interpreter import Interpreter

# Variables of hotlap's own that hold paths of this machine.
_HIDDEN = ("HOTLAP_INTERVENE", "HOTLAP_APPLIED", "HOTLAP_FRAMEWORKS")


@dataclass(frozen=True)
class Script:
    """A user's script with its arguments, as they were typed."""

    path: str  # of the file; of `-m package.train`, the dotted name
    module: bool = False
    arguments: tuple[str, ...] = ()
    interpreter: Interpreter | None = None  # that runs it; hotlap's own if not given

    @property
    def name(self) -> str:
        return self.path if self.module else Path(self.path).name

    @property
    def folder(self) -> Path:
        """Where the script lies; a module is looked up from where hotlap was started."""
        return Path() if self.module else Path(self.path).parent


@dataclass(frozen=True)
class System:
    """A system, or a Gymnasium environment with an algorithm, and all fields of its config."""

    name: str
    algorithm: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    env_only: bool = False  # bare environments with random actions, no learning

    def seeded(self, offset: int) -> System:
        """The same with another seed."""
        return replace(self, config={**self.config, "seed": self.config["seed"] + offset})


Target = Union[Script, System]


@dataclass(frozen=True)
class Variant:
    """A target under a name, with the environment variables that it runs with."""

    name: str
    target: Target
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """What a record keeps: no path of this machine, and no secret."""
        target = self.target
        shown = {name: value for name, value in self.environment.items() if name not in _HIDDEN}
        record: dict[str, Any] = {
            "name": self.name,
            "target": target.name,
            "arguments": [],
            "environment": secrets.masked_environment(shown),
            "env_only": False,
            "algorithm": None,
        }
        if isinstance(target, System):
            config = dict(target.config)
            record.update(system=target.name, config=config, env_only=target.env_only, algorithm=target.algorithm)
        else:
            record.update(script=target.name, arguments=secrets.masked(target.arguments))
        return record

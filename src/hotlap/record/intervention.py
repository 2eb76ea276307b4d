"""An intervention as it is planned, tried and written down: a reversible change to a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotlap.record.codec import was


@dataclass(frozen=True)
class Edit:
    """Lines from `first` to `last` become `lines`; with `last` one less than `first`, they are put in before it."""

    first: int
    last: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class RuntimeChange:
    """A change that is made while the script runs: its name in `interventions.CHANGES`, and its options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Intervention:
    """It may change what is done while the script runs, its flags, its environment, its text, or a system's config."""

    title: str
    changes: tuple[RuntimeChange, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    edits: dict[str, tuple[Edit, ...]] = field(default_factory=dict)  # file -> edits
    config: dict[str, Any] = field(default_factory=dict)  # of a system
    changes_learning: bool = False  # whether what is learned can change
    upper_bound: bool = field(default=False, metadata=was("bound"))  # whether it only shows what a fix could give
    new_files: dict[str, str] = field(default_factory=dict)  # name -> text, beside the script: what its edits import
    updates: float | None = None  # how many times as many updates per environment step it makes, if that is its point

    @property
    def is_patch(self) -> bool:
        """Whether the user can have it as a change of the text, of flags, of the environment or of a preset."""
        return not self.upper_bound and not self.changes

    @property
    def change_names(self) -> list[str]:
        """The changes that it makes while the script runs."""
        return [*(change.name for change in self.changes), *(["source"] if self.edits else [])]

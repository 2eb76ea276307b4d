"""What the reader of a report should know about the packages that were seen: one note per package."""

from __future__ import annotations

_notes: dict[str, str] = {}


def note(package: str, message: str) -> None:
    """The first note about a package stays."""
    _notes.setdefault(package, message)


def notes() -> tuple[str, ...]:
    return tuple(_notes.values())

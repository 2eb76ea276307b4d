"""A closed list of words: verdicts, reasons, kinds. Machine logic compares members; a record holds their values."""

from __future__ import annotations

from enum import Enum


class Word(str, Enum):
    """An enum whose members are, and print as, their values."""

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(str(self.value), spec)

"""Text of unknown origin, made safe to show: script names, error messages, code, whatever a record holds."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def printable(text: str) -> str:
    """Without what would steer a terminal: escape sequences, other control characters, changes of writing direction."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def one_line(text: str, most: int = 500) -> str:
    """A message on one line, not endless."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[:most]}..."


def shell_safe(text: str, most: int = 60) -> str:
    """A name that a shell takes as one word."""
    return _UNSAFE.sub("-", text).strip("-.")[:most] or "run"

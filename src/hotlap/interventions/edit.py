"""Edits of a text by lines: found by comparing two texts, applied, shown as a unified diff, and moved to an earlier text.

Line endings stay as they are in the file (CRLF too), and so does a missing newline at its end.
"""

import difflib
from collections.abc import Iterable, Sequence

from hotlap.interventions.code import lines_of
from hotlap.record.intervention import Edit

__all__ = ["Edit", "Edits", "Overlap", "apply", "diff", "edits_between", "to_original"]

Edits = list[Edit]


class Overlap(ValueError):
    """Two edits want to change the same line, or do not fit together."""


def edits_between(before: str, after: str) -> Edits:
    """The edits that turn one text into another, as few lines as possible."""
    old, new = lines_of(before), lines_of(after)
    same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    matcher = difflib.SequenceMatcher(None, old[same:], new[same:], autojunk=False)
    return [
        Edit(same + i + 1, same + j, tuple(new[same + k : same + m]))
        for kind, i, j, k, m in matcher.get_opcodes()
        if kind != "equal"
    ]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made. Edits of the same line raise Overlap; inserts at the same place stay in order."""
    lines = lines_of(text, ends=True)
    newline = _ending(lines[0]) if lines and _ending(lines[0]) else "\n"
    open_ended = bool(lines) and not _ending(lines[-1])
    if open_ended:
        lines[-1] += newline
    for edit in reversed(_ordered(edits)):
        lines[edit.first - 1 : edit.last] = [line + newline for line in edit.lines]
    if open_ended and lines:
        lines[-1] = lines[-1].rstrip("\r\n") or newline  # a last line that is empty is one only by its newline
    return "".join(lines)


def _ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _ordered(edits: Iterable[Edit]) -> list[Edit]:
    """Edits from top to bottom, each once: two interventions may both need the same import."""
    ordered = sorted(dict.fromkeys(edits), key=lambda edit: (edit.first, edit.last))
    last = 0
    for edit in ordered:
        if edit.first <= last:
            raise Overlap(f"two changes of line {edit.first}")
        last = max(last, edit.last)
    return ordered


def diff(name: str, before: str | None, after: str) -> str:
    """A unified diff that `patch` and `git apply` take; without a text before, one that makes the file."""
    old = "/dev/null" if before is None else f"a/{name}"
    lines = difflib.unified_diff(lines_of(before or "", ends=True), lines_of(after, ends=True), old, f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def to_original(text: str, before: Sequence[Edit], edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits of a text that was edited before, as edits of the text as it was. Lines that were changed raise Overlap."""
    origin: list[int | None] = list(range(1, len(lines_of(text)) + 1))
    for edit in reversed(_ordered(before)):
        origin[edit.first - 1 : edit.last] = [None] * len(edit.lines)
    return tuple(_moved(origin, edit) for edit in edits)


def _moved(origin: Sequence[int | None], edit: Edit) -> Edit:
    """An edit by the line numbers that lines had; `origin` gives them, None for a line that is new."""
    if edit.last < edit.first:
        following = origin[edit.first - 1] if edit.first <= len(origin) else None
        previous = origin[edit.first - 2] if 2 <= edit.first <= len(origin) + 1 else None
        place = following or (previous + 1 if previous is not None else None)
        if place is None:
            raise Overlap("this place was changed already")
        return Edit(place, place - 1, edit.lines)
    lines = [line for line in origin[edit.first - 1 : edit.last] if line is not None]
    if len(lines) != edit.last - edit.first + 1 or lines[-1] - lines[0] != edit.last - edit.first:
        raise Overlap("these lines were changed already")
    return Edit(lines[0], lines[-1], edit.lines)

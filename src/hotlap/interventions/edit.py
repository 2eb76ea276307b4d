"""Edits of a text by lines: applied, shown as a unified diff, and carried over from an edited text to its original."""

import ast
import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.interventions.code import Code


@dataclass(frozen=True)
class Edit:
    """Lines from `first` to `last` become `lines`; with `last` one less than `first`, they are put in before it."""

    first: int
    last: int
    lines: tuple[str, ...]


Edits = list[Edit]


class Overlap(ValueError):
    """Two edits want to change the same line."""


def apply(text: str, edits: Sequence[Edit]) -> str:
    lines = text.splitlines()
    ordered = sorted(set(edits), key=lambda edit: (edit.first, edit.last), reverse=True)
    for later, edit in itertools.pairwise(ordered):
        if edit.last >= later.first and later.last >= later.first:
            raise Overlap(f"two changes of line {later.first}")
    for edit in ordered:
        lines[edit.first - 1 : edit.last] = edit.lines
    return "\n".join(lines) + ("\n" if text.endswith("\n") or not text else "")


def diff(name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def swap(code: Code, changes: Sequence[tuple[ast.AST, str]]) -> Edits:
    """Replace expressions, each within one line."""
    by_line: dict[int, list[tuple[int, int, str]]] = {}
    for node, text in changes:
        line, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        if line != end:
            return []
        by_line.setdefault(line, []).append((node.col_offset, node.end_col_offset, text))  # type: ignore[attr-defined]
    edits = []
    for number, found in by_line.items():
        raw = code.lines[number - 1].encode()  # offsets are in bytes
        for begin, end, text in sorted(set(found), reverse=True):
            raw = raw[:begin] + text.encode() + raw[end:]
        edits.append(Edit(number, number, (raw.decode(),)))
    return edits


def to_original(text: str, before: Sequence[Edit], edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits of a text that was edited before, as edits of the text as it was. A line that was changed is left alone."""
    origin: list[int | None] = list(range(1, len(text.splitlines()) + 1))
    for edit in sorted(set(before), key=lambda edit: (edit.first, edit.last), reverse=True):
        origin[edit.first - 1 : edit.last] = [None] * len(edit.lines)
    moved = []
    for edit in edits:
        lines = origin[edit.first - 1 : max(edit.last, edit.first)]
        if not lines or None in lines:
            raise Overlap("this line was changed already")
        first = lines[0] or 1
        moved.append(Edit(first, first + edit.last - edit.first, edit.lines))
    return tuple(moved)

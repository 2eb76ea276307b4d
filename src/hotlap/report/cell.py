"""A report as a notebook shows it below a cell, in a few thousand characters: headline, what must not be missed, one table."""

from collections.abc import Iterable
from html import escape

from hotlap.report.sections import Bar, Cell, Notes, Report, Table, clean

_WIDTH = 8  # em, of a bar of length 1


def render(report: Report) -> str:
    """HTML that a notebook shows: the first table is the one that says most."""
    table = next((section for section in report.sections if isinstance(section, Table)), None)
    notes = [line for section in report.sections if isinstance(section, Notes) for line in section.lines]
    parts = [f"<b>{_text(report.title)}</b>", *(f"<br>{_text(line)}" for line in notes)]
    return "".join([*parts, _table(table) if table else ""])


def _table(table: Table) -> str:
    sides = ["right" if column.startswith(">") else "left" for column in table.columns]
    head = _row("th", sides, [_text(column.lstrip(">")) for column in table.columns])
    rows = (_row("td", sides, map(_cell, row)) for row in table.rows)
    return f"<table>{head}{''.join(rows)}</table>"


def _row(tag: str, sides: Iterable[str], cells: Iterable[str]) -> str:
    styled = (
        f'<{tag} style="text-align:{side};white-space:pre">{cell}</{tag}>' for side, cell in zip(sides, cells, strict=False)
    )
    return f"<tr>{''.join(styled)}</tr>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return f'<div style="background:#4c78a8;height:.8em;width:{cell.length * _WIDTH:.2f}em"></div>'
    return _text(cell)


def _text(text: str) -> str:
    return escape(clean(text))

"""Sections as Markdown, for a pull request."""

from collections.abc import Sequence
from html import escape

from hotlap.report.sections import Bar, Cell, Notes, Report, Section, Table, clean

CODE = ("code", "where", "function")  # columns that hold code
BAR = 20


def as_markdown(report: Report) -> str:
    return render(report.title, report.sections)


def render(title: str, sections: Sequence[Section]) -> str:
    parts = [f"# {_text(title)}"]
    for section in sections:
        if isinstance(section, Notes):
            lines = map(_text, section.lines)
            parts += [f"> **Note:** {line}" if section.kind == "warning" else f"**{line}**" for line in lines]
        elif isinstance(section, Table):
            parts.append(_table(section))
    return "\n\n".join(parts) + "\n"


def _table(section: Table) -> str:
    names = [_text(column.lstrip(">")) or " " for column in section.columns]
    rules = ["--:" if column.startswith(">") else ":--" for column in section.columns]
    lines = [f"## {_text(section.title)}", "", _row(names), _row(rules)]
    code = [i for i, column in enumerate(section.columns) if column in CODE]
    lines += [_row([_code(cell) if i in code else _cell(cell) for i, cell in enumerate(row)]) for row in section.rows]
    if section.note:
        lines += ["", f"*{_text(section.note)}*"]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(text: str) -> str:
    """Text that stays text: no HTML, no code, no link or image, no end of a cell or a line."""
    safe = escape(clean(text).strip(), quote=False)
    for mark, plain in (("|", "\\|"), ("`", "&#96;"), ("[", "\\["), ("]", "\\]")):
        safe = safe.replace(mark, plain)
    return safe


def _code(cell: Cell) -> str:
    """Code as a span; as HTML where it holds what would end the span, the cell or the text."""
    text = clean(str(cell)).strip()
    if not text:
        return ""
    return f"`{text}`" if not set("`|<>&") & set(text) else f"<code>{_text(text)}</code>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return "█" * round(cell.length * BAR)
    indent = len(cell) - len(cell.lstrip(" "))
    return "&nbsp;" * 2 * indent + _text(cell)

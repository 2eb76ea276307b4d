"""Sections as Markdown, for a pull request."""

from hotlap.report.sections import Bar, Cell, Notes, Section, Table


def render(title: str, sections: list[Section]) -> str:
    parts = [f"# {title}"]
    for section in sections:
        if isinstance(section, Notes):
            parts += [f"> **Note:** {line}" if section.kind == "warning" else f"**{line}**" for line in section.lines]
        elif isinstance(section, Table):
            parts.append(_table(section))
    return "\n\n".join(parts) + "\n"


def _table(section: Table) -> str:
    names = [column.lstrip(">") or " " for column in section.columns]
    rules = ["--:" if column.startswith(">") else ":--" for column in section.columns]
    lines = [f"## {section.title}", "", _row(names), _row(rules)]
    code = [i for i, column in enumerate(section.columns) if column in ("code", "where", "function")]
    lines += [_row([_code(cell) if i in code else _cell(cell) for i, cell in enumerate(row)]) for row in section.rows]
    if section.note:
        lines += ["", f"*{section.note}*"]
    return "\n".join(lines)


def _code(cell: Cell) -> str:
    return f"`{str(cell).replace('|', chr(92) + '|').replace('`', chr(39))}`"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return "█" * round(cell.value * 20)
    indent = len(cell) - len(cell.lstrip())
    return "&nbsp;" * 2 * indent + cell.strip().replace("|", "\\|").replace("<", "&lt;")

"""Sections as Markdown, for a pull request."""

from hotlap.report.content import Bar, Cell, Notes, Section, Table


def render(title: str, sections: list[Section]) -> str:
    parts = [f"# {title}"]
    for section in sections:
        if isinstance(section, Notes):
            parts.append("\n".join(f"> **Note:** {line}" for line in section.lines))
        elif isinstance(section, Table):
            parts.append(_table(section))
    return "\n\n".join(parts) + "\n"


def _table(section: Table) -> str:
    names = [column.lstrip(">") or " " for column in section.columns]
    rules = ["--:" if column.startswith(">") else ":--" for column in section.columns]
    lines = [f"## {section.title}", "", _row(names), _row(rules)]
    lines += [_row([_cell(cell) for cell in row]) for row in section.rows]
    if section.note:
        lines += ["", f"*{section.note}*"]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        return "█" * round(cell.value * 20)
    indent = len(cell) - len(cell.lstrip())
    return "&nbsp;" * 2 * indent + cell.strip().replace("|", "\\|").replace("<", "&lt;")

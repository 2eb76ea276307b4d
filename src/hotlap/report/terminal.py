"""Sections in a terminal, at any width."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from hotlap.report.sections import Bar, Cell, Notes, Section, Table

BAR = 24


class Output(Console):
    """A console that leaves a broken pipe to its caller."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def render(title: str, sections: list[Section], console: Console) -> None:
    console.print(f"[bold]{escape(title)}[/bold]")
    for section in sections:
        if isinstance(section, Notes):
            for line in section.lines:
                marked = f"[yellow]! {escape(line)}[/yellow]" if section.kind == "warning" else f"[bold]{escape(line)}[/bold]"
                console.print(marked, highlight=False)
        elif isinstance(section, Table):
            console.print()
            console.print(_table(section, console.width))


def _table(section: Table, width: int) -> RichTable:
    table = RichTable(
        title=escape(section.title),
        caption=escape(section.note) if section.note else None,
        box=None,
        pad_edge=False,
        show_header=any(section.columns),
        title_justify="left",
        caption_justify="left",
        title_style="bold cyan",
        caption_style="dim",
    )
    for i, column in enumerate(section.columns):
        # Only the last column may be long (a sentence, a line of code): it alone gives way when the terminal is narrow.
        last = i == len(section.columns) - 1
        table.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=not last)
    for row in section.rows:
        table.add_row(*(_cell(cell, width, section.crop) for cell in row))
    return table


def _cell(cell: Cell, width: int, crop: bool) -> Text:
    if isinstance(cell, Bar):
        length = BAR if width >= 100 else BAR // 2
        filled = round(cell.value * length)
        return Text("█" * filled + "·" * (length - filled), style="cyan")
    style = {"pass": "green", "FAIL": "bold red"}.get(cell, "")
    return Text(cell, style=style, no_wrap=crop, overflow="ellipsis" if crop else "fold")

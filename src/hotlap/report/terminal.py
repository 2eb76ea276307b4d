"""Sections in a terminal, at any width."""

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from hotlap.report.sections import Bar, Cell, Notes, Report, Section, Table, clean

BAR = 24
WIDE = 100  # columns from which bars have their full length
FILE_WIDTH = 120  # of a report that goes to a file


class Output(Console):
    """A console that leaves a broken pipe to its caller."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def render(title: str, sections: Sequence[Section], console: Console) -> None:
    console.print(Text(clean(title), style="bold"))
    for section in sections:
        if isinstance(section, Notes):
            for line in section.lines:
                warning = section.kind == "warning"
                console.print(Text(f"! {clean(line)}" if warning else clean(line), style="yellow" if warning else "bold"))
        elif isinstance(section, Table):
            console.print()
            console.print(_table(section, console.width))


def as_text(report: Report) -> str:
    """The report as it goes to a file."""
    text = StringIO()
    render(report.title, report.sections, Console(file=text, width=FILE_WIDTH))
    return text.getvalue()


def _table(section: Table, width: int) -> RichTable:
    table = RichTable(
        title=Text(clean(section.title)),
        caption=Text(clean(section.note)) if section.note else None,
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
        header = Text(clean(column.lstrip(">")))
        table.add_column(header, justify="right" if column.startswith(">") else "left", no_wrap=not last)
    for row in section.rows:
        table.add_row(*(_cell(cell, width, section.crop) for cell in row))
    return table


def _cell(cell: Cell, width: int, crop: bool) -> Text:
    if isinstance(cell, Bar):
        length = BAR if width >= WIDE else BAR // 2
        filled = round(cell.length * length)
        return Text("█" * filled + "·" * (length - filled), style="cyan")
    style = {"pass": "green", "FAIL": "bold red"}.get(cell, "")
    return Text(clean(cell), style=style, no_wrap=crop, overflow="ellipsis" if crop else "fold")

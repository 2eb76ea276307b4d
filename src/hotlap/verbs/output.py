"""What verbs share: how they print, and how they show that they are at work."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hotlap.record.run import write_atomically

Switch = tyro.conf.FlagCreatePairsOff[bool]
err = Console(stderr=True)


@contextmanager
def bar(*extra: Any) -> Iterator[Progress]:
    """A progress bar on stderr that goes away."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), *extra)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as progress:
        yield progress


def show(doc: dict[str, Any], as_json: bool, breakdown: bool, only: tuple[str, ...] = ()) -> None:
    """A run's document, as JSON or as tables; `only` those tables."""
    if as_json:
        print_json(doc)
        return
    from hotlap.report import sections as content
    from hotlap.report import terminal

    sections = content.sections(doc, breakdown)
    if only:
        sections = [s for s in sections if isinstance(s, content.Notes) or getattr(s, "title", "") in only]
    terminal.render(content.headline(doc), sections, terminal.Output())


def print_json(doc: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(doc, indent=2) + "\n")


def write(path: Path, text: str) -> int:
    """Write a report to a file and say where."""
    write_atomically(path, text)
    print(path)
    return 0

"""What verbs share: how they print, and how they show that they are at work."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from hotlap.core.text import printable
from hotlap.record import codec
from hotlap.record.header import Status
from hotlap.record.run import write_atomically

Switch = tyro.conf.FlagCreatePairsOff[bool]
err = Console(stderr=True)

EXIT_CODES = {Status.INTERRUPTED: 130, Status.FAILED: 1}


@contextmanager
def bar(*extra: Any) -> Iterator[Progress]:
    """A progress bar on stderr that goes away."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=None), *extra)
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as progress:
        yield progress


class _TimeBar(BarColumn):
    """How much of the time that a task may take is over."""

    def render(self, task: Task) -> ProgressBar:
        return ProgressBar(total=task.total or 1.0, completed=min(_spent(task), task.total or 1.0), width=self.bar_width)


class _TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        left = max(0, round((task.total or 0.0) - _spent(task)))
        return Text(f"about {left // 60}:{left % 60:02d} left", style="progress.remaining")


def _spent(task: Task) -> float:
    return float(task.fields.get("before", 0.0)) + (task.elapsed or 0.0)


@contextmanager
def time_bar() -> Iterator[Progress]:
    """The same for what ends when its time is over: the total of a task is in seconds, and `before` were spent earlier."""
    what = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    columns = (SpinnerColumn(), what, _TimeBar(bar_width=16), _TimeLeft())
    with Progress(*columns, console=err, transient=True, expand=True) as progress:
        yield progress


def say(message: str) -> None:
    """A line on stderr, whatever is in it."""
    err.print(printable(message), markup=False, highlight=False, soft_wrap=True)


def print_json(noun: Any, **more: Any) -> None:
    """One JSON document on stdout: a noun, and what else the verb has to tell."""
    sys.stdout.write(json.dumps({**codec.to_json(noun), **codec.to_json(more)}, indent=2) + "\n")


def write(path: Path, text: str) -> int:
    """Write a report to a file and say where."""
    write_atomically(path, text)
    print(printable(str(path)))
    return 0

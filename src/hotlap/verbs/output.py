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

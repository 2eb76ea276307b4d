"""The real command line, run in this process: the same code as `hotlap ...`, without a second for importing torch each time."""

import contextlib
import io
import os
import sys
from dataclasses import dataclass
from unittest import mock

from hotlap.cli import main


@dataclass(frozen=True)
class Result:
    stdout: str
    stderr: str
    returncode: int


def run_cli(*arguments, cwd, code=0, **environment):
    """What a command printed. It must end with this exit code, unless that is None.

    Not for what lets a child print, waits for signals, or must see another environment from its start.
    """
    out, err, before = io.StringIO(), io.StringIO(), os.getcwd()  # noqa: PTH109
    os.chdir(cwd)
    try:
        with (
            mock.patch.dict(os.environ, {"COLUMNS": "100", **environment}),
            mock.patch.object(sys, "argv", ["hotlap", *map(str, arguments)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as stop:
                returned = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    finally:
        os.chdir(before)
    assert code in (None, returned), err.getvalue() + out.getvalue()
    return Result(out.getvalue(), err.getvalue(), returned)

"""Run a script as Python would."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from hotlap.probe.stopping import StopProfiling
from hotlap.target.target import Script


def execute(script: Script, at_end: Callable[[], None] = lambda: None) -> tuple[int, str | None]:
    """The script's exit code, and its error if it raised one. `sys.argv` is the caller's business.

    `at_end` is called if it ends by itself, while its variables are still there.
    """
    try:
        if script.module:
            _put_first(str(Path.cwd()))
            variables = runpy.run_module(script.path, run_name="__main__", alter_sys=True)
        else:
            _put_first(str(Path(script.path).resolve().parent))
            variables = runpy.run_path(script.path, run_name="__main__")
        at_end()
        del variables
    except StopProfiling:
        return 0, None
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return (stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1), None
    except KeyboardInterrupt:
        return 130, None
    except BaseException as error:
        frames = error.__traceback__
        while frames and ("runpy" in (file := frames.tb_frame.f_code.co_filename) or file == __file__):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        return 1, f"{type(error).__name__}: {error}{_which_python(error)}"
    return 0, None


def _put_first(folder: str) -> None:
    """On the path, as Python does it: not with -P or PYTHONSAFEPATH, which Python 3.11 brought."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _which_python(error: BaseException) -> str:
    """A module that is missing may be installed in another environment."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return f" (Python {'.'.join(map(str, sys.version_info[:3]))} ran the script; --python PATH chooses another)"

"""Python runs this when it starts, in every process that a profiled script starts: it may be a worker.

A `sitecustomize` of the user's own, which this one hides, runs as it would have.
"""

from __future__ import annotations

import os
import sys


def _run_the_hidden_one() -> None:
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _command_line() -> str:
    """How this process was started. Python 3.9 does not tell yet."""
    if hasattr(sys, "orig_argv"):
        return " ".join(sys.orig_argv)  # novermin
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


_run_the_hidden_one()
_command = _command_line()
_is_service = "resource_tracker" in _command or ("/ray/" in _command and "default_worker" not in _command)
if ({"HOTLAP_PROBE", "HOTLAP_DELAY", "HOTLAP_INTERVENE"} & os.environ.keys()) and not _is_service:
    try:
        from hotlap.interventions import intervened
        from hotlap.probe.recorder import become_worker, install

        install()
        _changes = intervened()  # kept: when it is collected, the changes are undone
        _changes.__enter__()
        become_worker()
    except Exception:  # another Python, without hotlap: not our business
        pass

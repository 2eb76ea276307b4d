"""Python runs this when it starts, in every process that a profiled script starts: it may be a worker.

A `sitecustomize` of the user's own, which this one hides, runs as it would have. hotlap itself need not be installed: it is
loaded from where this file lies, and only in a Python that it supports.
"""

import os
import sys


def _load(name: str, folders: "list[str]") -> None:
    """Import a module from these folders, whatever else the path has."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec(name, folders)
    if spec and spec.loader:
        module = module_from_spec(spec)
        if name not in sys.modules:  # this file itself is there already, under the name of the one that it hides
            sys.modules[name] = module
        spec.loader.exec_module(module)


def _command_line() -> str:
    """How this process was started. Python 3.9 does not tell yet."""
    if hasattr(sys, "orig_argv"):
        return " ".join(sys.orig_argv)  # novermin
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_load("sitecustomize", [folder for folder in sys.path if os.path.abspath(folder) != _here])  # noqa: PTH100
_command = _command_line()
_is_service = "resource_tracker" in _command or ("/ray/" in _command and "default_worker" not in _command)
_asked = {"HOTLAP_EFFECTS", "HOTLAP_PROBE", "HOTLAP_DELAY", "HOTLAP_INTERVENE"} & set(os.environ)
if sys.version_info >= (3, 9) and _asked and not _is_service:
    try:
        _load("hotlap", [os.path.abspath(os.path.join(_here, "..", "..", ".."))])  # noqa: PTH100, PTH118
        from hotlap.probe import effects

        effects.install()
        if _asked != {"HOTLAP_EFFECTS"}:
            from hotlap.interventions import intervened
            from hotlap.probe.recorder import install
            from hotlap.probe.worker import become_worker

            install()
            _changes = intervened()  # kept: when it is collected, the changes are undone
            _changes.__enter__()
            become_worker()
    except Exception:  # the worker's own work matters more
        pass

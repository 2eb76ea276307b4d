"""The hottest part of the probe: core.c, compiled on first use; or the same in Python, on machines where that cannot be.

A hook is made from the Python hook that does everything (`slow`) and what its common path needs; without core.c it is that
Python hook.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from array import array
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from hotlap.core import native
from hotlap.core.errors import KernelError

Call = Callable[..., Any]
Make = Callable[..., Call]


class PythonState:
    """What hooks and events share. `log` is events of five numbers each."""

    __slots__ = (
        "active",
        "counting",
        "due",
        "env_steps",
        "inside",
        "late",
        "learned",
        "log",
        "paused",
        "region",
        "syncs",
        "thread",
        "threaded",
        "touched",
        "types_wanted",
        "updated",
        "watching",
        "watching_steps",
    )

    active: bool
    counting: bool  # whether environments' steps count; some adapters count them instead
    due: int  # a window may end from here on, a pause ends
    env_steps: int  # since the start
    inside: bool
    late: int  # a window ends from here on
    learned: bool  # whether an optimizer has stepped
    paused: bool  # whether hooks let everything pass, and steps and updates are only counted
    region: str  # the stage that is open, as a whole
    syncs: int  # synchronising calls since the last event
    thread: int
    threaded: bool  # whether other threads were seen at work; only then hooks look which thread calls them
    touched: bool  # whether an environment stepped in this window
    types_wanted: bool  # whether hooks should note the types of the data they see, once per window
    updated: bool  # whether something was learned since the last step
    watching: bool  # whether hooks tell `watch` of forward passes
    watching_steps: bool  # and of environments' steps

    def __init__(self) -> None:
        self.log = array("q")
        self.threaded = False

    def emit(self, kind: int, begin: int, end: int, first: int = 0, second: int = 0) -> None:
        self.log.extend((kind, begin, end, first, second))

    def take(self) -> bytes:
        log, self.log = self.log, array("q")
        return log.tobytes()


def _load() -> tuple[Any, str]:
    """core.c as a module; or None, and why not."""
    if os.environ.get("HOTLAP_CORE") == "python":
        return None, "HOTLAP_CORE=python asks for that"
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:
        return None, "the ones in C need CPython and its global lock"
    folder = Path(__file__).parent
    source = folder / "core.c"
    flags = [
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-shared",
        "-pthread",
        *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []),
    ]
    try:
        texts = [file.read_text() for file in (source, *sorted(folder.glob("*.h")))]
        path = native.library("core", *texts, *flags, sys.version, sysconfig.get_platform())
        if not path.exists():
            if (cc := native.compiler()) is None:
                return None, "there is no C compiler"
            include = sysconfig.get_path("include")
            if not Path(include, "Python.h").exists():
                return None, f"the headers of Python {sys.version_info[0]}.{sys.version_info[1]} are not installed"
            native.build(path, "core.c", cc, [*flags, f"-I{include}", str(source)])
        loader = importlib.machinery.ExtensionFileLoader("hotlap_core", str(path))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hotlap_core", loader))  # type: ignore[arg-type]
        loader.exec_module(module)
        return module, ""
    except (KernelError, OSError, ImportError, RuntimeError):  # its message has paths of this machine
        return None, "the ones in C could not be built or loaded"


def _maker(name: str) -> Make:
    fast = getattr(_native, name, None)

    def make(state: Any, original: Call, slow: Call, *options: Any) -> Call:
        """What the script's own file defines may travel to a worker by value, and only Python functions can."""
        of_script = getattr(original, "__module__", None) in ("__main__", "__mp_main__")
        return slow if fast is None or of_script else fast(state, original, slow, *options)

    return make


def _instances(objects: list[Any], types: tuple[type, ...]) -> list[Any]:
    """The objects of exactly these classes.

    Ids are compared: isinstance would read `__class__`, which proxies may compute, and a metaclass may be unhashable.
    """
    ids = set(map(id, types))
    return [item for item, kind in zip(objects, map(id, map(type, objects))) if kind in ids]


_native, WHY_PYTHON = _load()
instances: Callable[[list[Any], tuple[type, ...]], list[Any]] = getattr(_native, "instances", _instances)
reachable: Callable[..., list[Any] | None] | None = getattr(_native, "reachable", None)  # objects that variables lead to
variables: Callable[[FrameType], list[Any]] = getattr(_native, "variables", lambda _: [])  # of a running function
audit: Callable[..., None] | None = getattr(_native, "audit", None)  # calls a function with some of the audit events
ticker: Any = _native  # has the clock of the sampler, if it is there
forward, step, region, unless = map(_maker, ("forward", "step", "region", "unless"))
optimizer_begins: Make | None = getattr(_native, "optimizer_begins", None)
optimizer_ends: Make | None = getattr(_native, "optimizer_ends", None)
INSIDE, INSIDE_ALONE, NOT_UPDATED = range(3)  # when `unless` calls the original alone
if TYPE_CHECKING:
    State = PythonState
else:
    State = _native.State if _native else PythonState

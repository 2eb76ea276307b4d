"""In a copied scratch: a script that writes outside of it is stopped, with the path that it wanted to write to.

An audit hook sees what Python opens, renames and removes, before it happens. torch, safetensors and OpenCV write files from
C++, where no audit hook sees them, so their functions are wrapped once they are imported.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.launch.copying import VARIABLE, moved

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FREE = ("/dev", "/proc")  # devices, and what is no file
# Event -> places of the paths among its arguments, and of the folder descriptors that they are relative to.
_EVENTS: Mapping[str, Sequence[tuple[int, int | None]]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}
# Functions that write from C++: module -> name, place of the path among its arguments.
_NATIVE = {"torch": ("save", 1), "safetensors.torch": ("save_file", 1), "cv2": ("imwrite", 0)}


class OutsideScratch(BaseException):
    """The script wants to write outside of its scratch. No `except Exception` of the script's may swallow it."""


@dataclass
class Guard:
    """Which folders may be written to, and the first path outside of them that the script wanted."""

    pairs: Sequence[Sequence[str]]
    writable: tuple[str, ...]
    refused: str | None = None

    def check(self, path: str) -> None:
        real = os.path.realpath(path)
        if any(real == folder or real.startswith(f"{folder}/") for folder in self.writable):
            return
        self.refused = self.refused or real
        raise OutsideScratch(message(real))

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and isinstance(path, (str, bytes, os.PathLike)):
                self.check(os.fsdecode(path))
        elif event in _EVENTS:
            for place, folder in _EVENTS[event]:
                self._check_argument(arguments, place, folder)
        elif event == "sqlite3.connect" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            database = os.fsdecode(arguments[0])
            if database and database != ":memory:" and not (database.startswith("file:") and "mode=" in database):
                self.check(database[5:].partition("?")[0] if database.startswith("file:") else database)

    def _check_argument(self, arguments: tuple[Any, ...], place: int, folder: int | None) -> None:
        path = arguments[place]
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a descriptor that was opened before, and checked then
        descriptor = arguments[folder] if folder is not None and folder < len(arguments) else -1
        if isinstance(descriptor, int) and descriptor >= 0:
            self.check(os.path.join(os.path.realpath(f"/proc/self/fd/{descriptor}"), os.fsdecode(path)))  # noqa: PTH118
        else:
            self.check(os.fsdecode(path))


def message(path: str) -> str:
    return f"it writes to {path}, outside of its scratch copy: choose --scratch overlay, or --in-place if it may write there"


def install() -> Guard | None:
    """Guard this process, if it runs in a copy."""
    if VARIABLE not in os.environ:
        return None
    settings = json.loads(os.environ[VARIABLE])
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    folders = {os.path.realpath(folder) for folder in (*settings["writable"], home, *_FREE)}
    guard = Guard(settings["pairs"], tuple(sorted(folders)))
    sys.addaudithook(guard.on_event)
    _guard_native(guard)
    return guard


def _guard_native(guard: Guard) -> None:
    from hotlap.probe.events import EVENTS
    from hotlap.probe.hooks.patching import Finder

    def patch(name: str, place: int) -> Callable[[ModuleType, Any], None]:
        def on_import(module: ModuleType, _: Any) -> None:
            if original := getattr(module, name, None):
                setattr(module, name, _checked(original, place, guard))

        return on_import

    Finder(EVENTS, {module: [patch(name, place)] for module, (name, place) in _NATIVE.items()}).install()


def _checked(function: Callable[..., Any], place: int, guard: Guard) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        paths = [value for value in (*args[place : place + 1], *kwargs.values()) if isinstance(value, (str, os.PathLike))]
        for path in paths[:1]:
            guard.check(os.fsdecode(path))
        return function(*args, **kwargs)

    return call


def moved_script(path: str) -> str:
    """Where the script is in the copy."""
    return moved(path, json.loads(os.environ[VARIABLE])["pairs"]) if VARIABLE in os.environ else path

"""How interventions change a running script: attributes of modules and classes, once they are imported, and back again.

This runs in the user's process: standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.probe.events import EVENTS
from hotlap.probe.hooks.patching import Finder

APPLIED = "HOTLAP_APPLIED"  # environment variable: a folder in which each change that had an effect leaves its name
_MISSING = object()

Patch = Callable[[Any], None]  # of a module


class Change:
    """One intervention in this process: what it changed, how to change that back, and whether it ever had an effect."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.patches: dict[str, list[Patch]] = {}
        self._is_applied = False
        self._undo = ExitStack()

    def when_imported(self, module: str, patch: Patch) -> None:
        """Patch a module as soon as the script has imported it, or at once if it has."""
        self.patches.setdefault(module, []).append(patch)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class."""
        before = owner.__dict__.get(name, _MISSING)
        self.on_undo(_restore, owner, name, before)
        setattr(owner, name, value)

    def replace(self, owner: Any, name: str, function: Callable[..., Any]) -> None:
        """Replace a function. That has an effect once it is called."""
        self.set(owner, name, self.noted(function))

    def setenv(self, name: str, value: str) -> None:
        """Set an environment variable."""
        self.on_undo(_restore_variable, name, os.environ.get(name))
        os.environ[name] = value

    def for_each_subclass(self, base: Any, alter: Callable[[Any], None]) -> None:
        """Alter every class that is derived from this one from now on."""
        before = base.__dict__.get("__init_subclass__")

        def init_subclass(cls: Any, /, **kwargs: Any) -> None:
            if before is not None:
                before.__func__(cls, **kwargs)
            else:
                super(base, cls).__init_subclass__(**kwargs)
            alter(cls)

        self.set(base, "__init_subclass__", classmethod(init_subclass))

    def on_undo(self, function: Callable[..., Any], *args: Any) -> None:
        """Call this when the change is undone; the last first."""
        self._undo.callback(function, *args)

    def applied(self) -> None:
        """It has had an effect. Also in a worker process of the script, hence a file."""
        if not self._is_applied:
            self._is_applied = True
            folder = os.environ.get(APPLIED)
            if folder:
                with suppress(OSError):
                    (Path(folder) / self.name).touch()

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function; calling it is the change's effect."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.applied()
            return function(*args, **kwargs)

        return call

    def undo(self) -> None:
        self.patches.clear()  # modules that are imported later stay as they are
        self._undo.close()


def _restore(owner: Any, name: str, value: Any) -> None:
    if value is not _MISSING:
        setattr(owner, name, value)
    elif name in owner.__dict__:
        delattr(owner, name)


def _restore_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextmanager
def changed(name: str, function: Callable[..., None], **options: Any) -> Iterator[Change]:
    """Make a change, and undo all of it at the end. What the script copied meanwhile (`from x import y`) stays as it is."""
    change = Change(name)

    def patch(module: ModuleType, _: Any) -> None:
        for each in change.patches.get(module.__name__, ()):
            each(module)

    try:
        function(change, **options)
        finder = Finder(EVENTS, {module: [patch] for module in change.patches})
        change.on_undo(_forget, finder)
        finder.install()
        yield change
    finally:
        change.undo()


def _forget(finder: Finder) -> None:
    with suppress(ValueError):  # a script may have removed it
        sys.meta_path.remove(finder)


def nothing(*_: Any, **__: Any) -> None:
    """In place of a function that is left out."""

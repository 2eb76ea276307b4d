"""How interventions change things: attributes of modules and classes, once they are imported, and back again."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from hotlap.probe.events import EVENTS
from hotlap.probe.hooks.patching import Finder

TOOK = "HOTLAP_TOOK"  # environment variable: a folder in which each change that met something to change leaves its name
_MISSING = object()


class Change:
    """Attributes that were set, and what they were before; and whether the script ever came across them."""

    naming = ""  # the change that is being made

    def __init__(self) -> None:
        self._name = Change.naming
        self._took = False
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute. A function has an effect once it is called; whatever else, if it differs from what was there."""
        before = owner.__dict__.get(name, _MISSING)
        self._before.append((owner, name, before))
        if isinstance(value, FunctionType):
            value = self.noted(value)
        elif not isinstance(value, type | classmethod) and value != before:
            self.took()
        setattr(owner, name, value)

    def took(self) -> None:
        """It has had an effect. Also in a worker process of the script, hence a file."""
        if not self._took:
            self._took = True
            if folder := os.environ.get(TOOK):
                with suppress(OSError):
                    (Path(folder) / self._name).touch()

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which by being called has its effect."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.took()
            return function(*args, **kwargs)

        return call

    def undo(self) -> None:
        for owner, name, value in reversed(self._before):
            delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
        self._before.clear()


@contextmanager
def when_imported(patches: dict[str, Callable[[Any, Change], None]]) -> Iterator[Change]:
    """Change modules as soon as they are imported, or now if they are; all is undone at the end."""
    change = Change()

    def patch(name: str) -> Callable[[ModuleType, Any], None]:
        return lambda module, _: patches[name](module, change)

    finder = Finder(EVENTS, {name: [patch(name)] for name in patches})
    finder.install()
    try:
        yield change
    finally:
        sys.meta_path.remove(finder)
        change.undo()


def for_each_class(base: Any, change: Change, alter: Callable[[Any], None]) -> None:
    """Alter every class that will be derived from this one."""
    before = base.__dict__.get("__init_subclass__")

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        if before is not None:
            before.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        alter(cls)

    change.set(base, "__init_subclass__", classmethod(init_subclass))


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a function that is left out."""

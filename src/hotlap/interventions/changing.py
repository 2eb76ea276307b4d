"""How interventions change things: attributes of modules and classes, once they are imported, and back again."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from hotlap.probe.events import EVENTS
from hotlap.probe.hooks import Finder

_MISSING = object()


class Change:
    """Attributes that were set, and what they were before."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, owner.__dict__.get(name, _MISSING)))
        setattr(owner, name, value)

    def undo(self) -> None:
        for owner, name, value in reversed(self._before):
            delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
        self._before.clear()


@contextmanager
def when_imported(patches: dict[str, Callable[[Any, Change], None]]) -> Iterator[None]:
    """Change modules as soon as they are imported, or now if they are; all is undone at the end."""
    change = Change()

    def patch(name: str) -> Callable[[ModuleType, Any], None]:
        return lambda module, _: patches[name](module, change)

    finder = Finder(EVENTS, {name: [patch(name)] for name in patches})
    finder.install()
    try:
        yield
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

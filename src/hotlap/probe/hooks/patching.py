"""The machinery of hooks: packages are hooked once the script has imported them, never before.

A hook is thin: it calls the original with the original arguments and returns what it returned. `table.py` says which module
gets which hooks.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from types import ModuleType
from typing import Any

from hotlap.core import stages
from hotlap.core.paths import WAIT
from hotlap.probe import core, delays
from hotlap.probe.events import Events
from hotlap.probe.kinds import REGION, WAITED, number_of
from hotlap.probe.notes import note

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
Patch = Callable[[ModuleType, Events], None]


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and patches those it has patches for once they have been executed."""

    def __init__(self, events: Events, patches: dict[str, list[Patch]]) -> None:
        self.events = events
        self.patches = patches
        self._busy: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for name in [name for name in self.patches if name in sys.modules]:
            self._patch(sys.modules[name])

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.patches or name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_and_patch(module: ModuleType) -> None:
            execute(module)
            self._patch(module)

        spec.loader.exec_module = exec_and_patch  # type: ignore[method-assign]
        return spec

    def _patch(self, module: ModuleType) -> None:
        for patch in self.patches[module.__name__]:
            self._apply(patch, module)

    def _apply(self, patch: Patch, module: ModuleType) -> None:
        try:
            patch(module, self.events)
        except Exception as error:  # something else of the same name, or another version: import it anyway
            note(module.__name__, f"{module.__name__} is not as hotlap knows it ({error}), so it is not measured.")


def wrap(owner: Any, name: str, around: Around, inherited: bool = False) -> None:
    """Replace a function or method of a module or class, once; one that a class only inherits if asked to."""
    own = owner.__dict__.get(name)
    original: Any = _inherited(owner, name) if own is None and inherited else own
    static = isinstance(original, staticmethod)
    function = original.__func__ if static else original
    if not callable(function) or (own is not None and hasattr(function, "__hotlap__")):
        return
    replacement: Any = functools.wraps(function)(around(function))
    replacement.__hotlap__ = True
    setattr(owner, name, staticmethod(replacement) if static else replacement)


def _inherited(owner: type, name: str) -> Callable[..., Any]:
    """What a class inherits: of an instance's own class, which may have other parents too."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(owner, self), name)(*args, **kwargs)

    inherited: Any = functools.wraps(getattr(owner, name))(call)
    inherited.__inherited__ = True  # the class has none of its own, and a hook that is taken off leaves none
    return inherited  # type: ignore[no-any-return]


def wrap_family(base: type, methods: dict[str, Around], abstract: tuple[type, ...] = ()) -> None:
    """Replace methods of a class and of every class derived from it, now or later.

    Methods of `abstract` classes are replaced where they are inherited: `super().step()` then costs nothing.
    """

    def hook(cls: type) -> None:
        if cls in abstract:
            return
        for name, around in methods.items():
            definer = next((c for c in cls.__mro__ if name in c.__dict__), None)
            wrap(cls, name, around, definer in abstract)

    for cls in (base, *below(base)):
        hook(cls)
    original = base.__dict__.get("__init_subclass__")

    def init_subclass(cls: type, **kwargs: Any) -> None:
        if original is not None:
            original.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)  # type: ignore[arg-type]
        hook(cls)

    base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment,arg-type]


def below(cls: type) -> Iterator[type]:
    """All classes derived from this one."""
    derived: type
    for derived in type.__subclasses__(cls):
        yield derived
        yield from below(derived)


def as_region(events: Events, path: str) -> Around:
    """A wrapper for functions that are one stage as a whole."""
    number = number_of(path)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        original = delays.slowed(path, original)

        def call(*args: Any, **kwargs: Any) -> Any:
            if events.paused and path == stages.EVALUATE and not events.region:
                return while_paused(*args, **kwargs)
            if events.inside or not (begin := events.begin(path)):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                events.end(REGION, begin, number)

        def while_paused(*args: Any, **kwargs: Any) -> Any:
            events.region = path  # steps inside it are no training
            try:
                return original(*args, **kwargs)
            finally:
                events.region = ""

        return core.region(events, original, call, path, REGION, number, path == stages.EVALUATE)

    return around


def as_phase(events: Events, path: str) -> Around:
    """A wrapper for functions that begin a phase of training."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            events.phase(path)
            return original(*args, **kwargs)

        return call

    return around


def elsewhere(events: Events, stage: str | bool, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call something on another thread than the measured one. `stage` is a path, or whether a forward pass has gradients."""
    tally = events.elsewhere()
    if tally is None or not (begin := tally.enter()):
        return original(*args, **kwargs)
    try:
        return original(*args, **kwargs)
    finally:
        tally.leave(tally.forward_path(stage) if isinstance(stage, bool) else stage, begin)


def as_wait(events: Events, path: str = WAIT) -> Around:
    """A wrapper for functions that wait for a worker process: inside an environment's step, or between steps."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            delays.note_wait()
            if events.threaded and get_ident() != events.thread:
                return elsewhere(events, path, original, *args, **kwargs)
            if events.inside:
                if not events.in_environment():
                    return original(*args, **kwargs)
                begin = events.carve(path)
                try:
                    return original(*args, **kwargs)
                finally:
                    events.carved(begin)
            if not (begin := events.environment(path)):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                if get_ident() == events.thread:  # else another one learned meanwhile, and is measured now
                    events.end(WAITED, begin)

        return call

    return around

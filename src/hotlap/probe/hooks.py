"""The machinery of hooks: packages are hooked once the script has imported them, never before.

A hook is thin: it calls the original with the original arguments and returns what it returned. `generic.py` has the hooks that
see any script, `adapters.py` what the frameworks need beyond them.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from hotlap.probe.timeline import Timeline

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
Patch = Callable[[ModuleType, Timeline], None]


class Finder(importlib.abc.MetaPathFinder):
    """Finds modules as usual, and patches those it has patches for once they have been executed."""

    def __init__(self, timeline: Timeline, patches: dict[str, list[Patch]]) -> None:
        self.timeline = timeline
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
            patch(module, self.timeline)


def wrap(owner: Any, name: str, around: Around, inherited: bool = False) -> None:
    """Replace a function or method of a module or class, once; one that a class only inherits if asked to."""
    original = owner.__dict__.get(name)
    if original is None and inherited:
        original = getattr(owner, name)
        setattr(owner, name, functools.wraps(original)(around(original)))
        return
    if original is None or getattr(original, "__hotlap__", False):
        return
    static = isinstance(original, staticmethod)
    function = original.__func__ if static else original
    if not callable(function):
        return
    replacement = functools.wraps(function)(around(function))
    replacement.__hotlap__ = True  # type: ignore[attr-defined]
    setattr(owner, name, staticmethod(replacement) if static else replacement)


def wrap_family(base: type, methods: dict[str, Around]) -> None:
    """Replace methods of a class and of every class derived from it, now or later."""

    def hook(cls: type) -> None:
        for name, around in methods.items():
            wrap(cls, name, around)

    for cls in (base, *_below(base)):
        hook(cls)
    original = base.__init_subclass__

    def init_subclass(cls: type, **kwargs: Any) -> None:
        original.__func__(cls, **kwargs) if hasattr(original, "__func__") else original(**kwargs)
        hook(cls)

    base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment,arg-type]


def _below(cls: type) -> Iterator[type]:
    """All classes derived from this one."""
    derived: type
    for derived in type.__subclasses__(cls):
        yield derived
        yield from _below(derived)


def as_region(timeline: Timeline, path: str) -> Around:
    """A wrapper for functions that are one stage as a whole."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if timeline.inside or not timeline.region_begins(path):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                timeline.region_ends(path)

        return call

    return around


def as_phase(timeline: Timeline, path: str) -> Around:
    """A wrapper for functions that begin a phase of training."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            timeline.phase_begins(path)
            return original(*args, **kwargs)

        return call

    return around


def as_wait(timeline: Timeline, path: str) -> Around:
    """A wrapper for functions that wait for a worker process: inside an environment's step, or between steps."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if timeline.inside:
                if not timeline.in_environment():
                    return original(*args, **kwargs)
                begin = timeline.carve_begins(path)
                try:
                    return original(*args, **kwargs)
                finally:
                    timeline.carve_ends(begin)
            if not timeline.environment_begins(path):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                timeline.environment_ends(path)

        return call

    return around

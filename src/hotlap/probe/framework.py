"""What hotlap knows about one framework: one `Framework` object, made in one file of `frameworks/` or in a plugin.

`regions` are functions that are one stage as a whole, `phases` are functions in which the time that no event claims belongs to
`collect` or `update`, `waits` are functions that wait for workers. Such a name is "module:Class.method" or "module:function";
methods are hooked in derived classes too, unless the name ends with "!". A framework of another version, or one that lacks a
name, is measured by the hooks of torch and Gymnasium alone, and the report says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from importlib import metadata
from types import ModuleType
from typing import Any

from hotlap.core.paths import WAIT
from hotlap.probe.events import Events
from hotlap.probe.hooks.environments import Steps, num_envs, patch_environments
from hotlap.probe.hooks.patching import Around, Patch, as_phase, as_region, as_wait, wrap, wrap_family
from hotlap.probe.notes import note
from hotlap.probe.results import TUPLES, StepReader


@dataclass(frozen=True)
class EnvironmentClass:
    """A class whose instances, and those of derived classes, are environments."""

    name: str  # "module:Class"
    steps: Steps = num_envs  # (environment, action, result) -> how many steps one call makes
    step_methods: tuple[str, ...] = ("step", "step_wait")
    reader: StepReader = TUPLES
    abstract: tuple[str, ...] = ()  # classes of the same module to inherit from, whose own methods cost nothing worth a hook
    inner: tuple[str, ...] = ("env",)  # attributes that hold the environment inside, or a list of them

    @property
    def module(self) -> str:
        return self.name.partition(":")[0]

    def of(self, module: ModuleType) -> type:
        cls: type = _attribute(module, self.name.partition(":")[2])
        return cls

    def find(self) -> type | None:
        """The class, if the script has imported it."""
        try:
            return self.of(sys.modules[self.module])
        except (KeyError, AttributeError):
            return None

    def hook(self, module: ModuleType, events: Events) -> None:
        abstract = tuple(getattr(module, name) for name in self.abstract)
        patch_environments(self.of(module), events, self.steps, self.step_methods[1:], abstract, self.reader)

    def wrap_steps(self, around: Callable[[EnvironmentClass], Around]) -> Patch:
        """A patch that replaces the methods that step, for callers that measure something other than time."""

        def patch(module: ModuleType, _: Events) -> None:
            wrap_family(self.of(module), dict.fromkeys(self.step_methods, around(self)))

        return patch


@dataclass(frozen=True)
class VectorLayout:
    """Two classes of vectors: one steps in worker processes, one in this process.

    An intervention can put one in the place of the other, if both are made of a list of functions.
    """

    module: str  # where scripts import both from
    workers: str
    one_process: str
    kept: tuple[str, ...] | None = None  # keyword arguments that both know; None: all of them
    start: Mapping[str, str] = field(default_factory=dict)  # arguments with which workers are started
    swappable: bool = True


@dataclass(frozen=True)
class Framework:
    package: str  # the name of its distribution
    versions: tuple[str, str] | None  # from the first, up to but without the second; None: all
    regions: Mapping[str, str] = field(default_factory=dict)  # function -> path of the stage
    phases: Mapping[str, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()
    environments: tuple[EnvironmentClass, ...] = ()
    layouts: tuple[VectorLayout, ...] = ()
    extra: Mapping[str, Patch] = field(default_factory=dict)  # module -> what no table can say
    only: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # names and modules that not all of these versions have

    @property
    def is_known(self) -> bool:
        """Whether the installed version is one that this was tried with."""
        return self.versions is None or self._is_within(self.versions)

    def _has(self, name: str) -> bool:
        return name not in self.only or self._is_within(self.only[name])

    def _is_within(self, versions: tuple[str, str]) -> bool:
        low, high = map(_version, versions)
        return low <= _version(metadata.version(self.package)) < high

    def patches(self) -> Iterator[tuple[str, Patch]]:
        """Modules, and what to do once they are imported."""
        waits = dict.fromkeys(self.waits, WAIT)
        for table, around in ((self.regions, as_region), (self.phases, as_phase), (waits, as_wait)):
            for name, path in table.items():
                module, _, target = name.partition(":")
                yield module, self._guarded(name, _hook(target, around, path))
        for kind in self.environments:
            yield kind.module, self._guarded(kind.name, kind.hook)
        for name, patch in self.extra.items():
            yield name, self._guarded(name, patch)

    def _guarded(self, name: str, patch: Patch) -> Patch:
        """Patch if the version is known; what cannot be patched is noted."""

        def guarded(module: ModuleType, events: Events) -> None:
            try:
                if self.is_known:
                    if self._has(name):
                        patch(module, events)
                    return
                low, high = self.versions or ("", "")
                problem = f"hotlap's adapter knows {low} up to {high}"
            except Exception as error:  # something else of the same name, or another version: import it anyway
                problem = f"{name} is not as hotlap's adapter knows it ({error})"
            note(self.package, f"{self.package} {self._version()}: {problem}; its stages come from the generic hooks alone.")

        return guarded

    def _version(self) -> str:
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return "unknown"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _attribute(module: ModuleType, path: str) -> Any:
    return reduce(getattr, path.split("."), module)


def _hook(target: str, around: Callable[[Events, str], Around], path: str) -> Patch:
    def patch(module: ModuleType, events: Events) -> None:
        owner, _, name = target.rpartition(".")
        if not owner:
            getattr(module, name)
            wrap(module, name, around(events, path))
            return
        base = getattr(module, owner)
        if name.endswith("!"):
            wrap(base, name[:-1], around(events, path))
            return
        wrap(base, name, around(events, path), inherited=True)
        wrap_family(base, {name: around(events, path)})

    return patch

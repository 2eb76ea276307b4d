"""What other packages add to hotlap, by entry points: causes, frameworks, systems, report formats.

    [project.entry-points."hotlap.causes"]
    slow-disk = "my_package.causes:SLOW_DISK"

A plugin that cannot be loaded, or gives something else than its group holds, is left out; the problem is kept, to be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

CAUSES, FRAMEWORKS, SYSTEMS, FORMATS = "hotlap.causes", "hotlap.frameworks", "hotlap.systems", "hotlap.formats"


@dataclass(frozen=True)
class Plugins:
    """Objects by the names of their entry points, and what went wrong with others, a line each."""

    objects: dict[str, Any]
    problems: tuple[str, ...] = ()


@cache
def names(group: str) -> tuple[str, ...]:
    """The names of a group's entry points. Nothing is imported."""
    return tuple(point.name for point in _points(group))


@cache
def load(group: str, kind: type) -> Plugins:
    """All objects of a group: each an instance of `kind`, or a tuple of instances."""
    objects: dict[str, Any] = {}
    problems: list[str] = []
    for point in _points(group):
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module raises
            problems.append(f"plugin {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}")
            continue
        parts = loaded if isinstance(loaded, tuple) else (loaded,)
        if parts and all(isinstance(part, kind) for part in parts):
            objects[point.name] = loaded
        else:
            problems.append(f"plugin {point.name} ({point.value}) is no {kind.__name__}")
    return Plugins(objects, tuple(problems))


def _points(group: str) -> list[Any]:
    points = metadata.entry_points()
    selected = points.select(group=group) if hasattr(points, "select") else points.get(group, ())
    return sorted({point.name: point for point in selected}.values(), key=lambda point: str(point.name))

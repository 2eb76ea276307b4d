"""Frameworks that others ship: entry points of the group "hotlap.frameworks", each of them a module with a `FRAMEWORK`.

A script may run in another Python environment than hotlap. So hotlap, which sees the entry points, hands the plugins' files to
the script's process by their paths, in HOTLAP_FRAMEWORKS.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from hotlap.core.plugins import FRAMEWORKS
from hotlap.probe.framework import Framework
from hotlap.probe.notes import note

VARIABLE = "HOTLAP_FRAMEWORKS"


def plugin_paths() -> list[str]:
    """The files of all plugins that are installed here; of a missing one its module's name, so that it is noted."""
    points: Any = metadata.entry_points()
    entries = points.select(group=FRAMEWORKS) if hasattr(points, "select") else points.get(FRAMEWORKS, ())  # 3.9 has a dict
    modules = sorted({entry.value.partition(":")[0].strip() for entry in entries})
    return [_file_of(module) for module in modules]


def plugin_variable() -> dict[str, str]:
    """The environment of a process that should know the plugins."""
    return {VARIABLE: os.pathsep.join(plugin_paths())}


def load() -> tuple[Framework, ...]:
    """The plugins that the environment names; in a process that hotlap did not start, those that are installed."""
    named = os.environ.get(VARIABLE)
    paths = plugin_paths() if named is None else [path for path in named.split(os.pathsep) if path]
    return tuple(framework for path in paths if (framework := _load(path)) is not None)


@cache
def _load(path: str) -> Framework | None:
    try:
        spec = importlib.util.spec_from_file_location(f"hotlap_plugin_{Path(path).stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError("no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        framework = module.FRAMEWORK
        if not isinstance(framework, Framework):
            raise TypeError("FRAMEWORK is no Framework")
        return framework
    except Exception as error:  # a plugin's trouble must never be the script's
        note(path, f"The framework plugin {Path(path).name} cannot be used ({type(error).__name__}: {error}).")
        return None


def _file_of(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except Exception:
        spec = None
    return spec.origin if spec is not None and spec.origin else module

"""Another text for the user's files: a patch that is tried without touching anything on disk."""

from __future__ import annotations

import _io
import importlib.util
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hotlap.interventions.changing import Change


def replaced(change: Change, texts_in: str) -> None:
    """Python reads other texts instead of the user's files: as the script, and as modules that it imports.

    `texts_in` is a JSON file that maps paths to texts: a variable of the environment would be too short for them. A path where
    no file is becomes a module that can be imported.
    """
    files = json.loads(Path(texts_in).read_text()) if texts_in else {}
    texts = {str(Path(path).resolve()): text.encode() for path, text in files.items()}
    added = {Path(path).stem: path for path in texts if not Path(path).exists()}
    cached = {importlib.util.cache_from_source(path) for path in texts}
    original: Any = io.open_code

    def open_code(path: Any) -> Any:
        where = str(Path(path).resolve())
        if where in cached:  # compiled from the file as it is
            raise FileNotFoundError(where)
        if where not in texts:
            return original(path)
        change.applied()
        return io.BytesIO(texts[where])

    if added:
        finder = _Added(added)
        sys.meta_path.append(finder)
        change.on_undo(sys.meta_path.remove, finder)
    change.set(sys, "dont_write_bytecode", True)
    change.set(_io, "open_code", open_code)
    change.set(io, "open_code", open_code)


class _Added:
    """Finds modules whose files are not on disk."""

    def __init__(self, paths: dict[str, str]) -> None:
        self.paths = paths

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_file_location(name, self.paths[name]) if name in self.paths else None


KEPT = 8  # results of a function that are recorded before they stand in for it


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that costs nothing any more: after some calls, its results again and again. An upper bound of any fix."""
    results: list[Any] = []
    calls = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        if len(results) < KEPT:
            results.append(function(*args, **kwargs))
            return results[-1]
        calls += 1
        return results[calls % KEPT]

    return call


def rarer(times: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function that runs once every `times` calls and returns its last result in between."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        calls, last = 0, None

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls, last
            if calls % times == 0:
                last = function(*args, **kwargs)
            calls += 1
            return last

        return call

    return decorate


_runs: dict[str, int] = {}  # of loops that are skipped, by their place


def skipped(iterable: Any, place: str) -> Any:
    """The items of a loop the first times it runs, then none: an upper bound of what the loop costs."""
    _runs[place] = _runs.get(place, 0) + 1
    return iterable if _runs[place] <= KEPT else ()

"""Recorded calls of a user's function, replayed against its rewrite in the same process: what a rewrite gains, measured before
any experiment.

`hotlap investigate` decorates the function with `replayed`. The first calls pass; then some are recorded, arguments copied in
depth, a while apart. With enough of them, both forms run on copies of the same arguments and with the same random numbers, in
turn; what was measured goes to a file, and the script is stopped.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.probe.stopping import StopProfiling

VARIABLE = "HOTLAP_REPLAY"  # environment variable: the path of a file with what to replay (`Order`)
SKIPPED = 5  # calls at first: caches are cold, buffers empty
RECORDED = 12  # calls that are replayed
APART = 0.05  # seconds between two of them, at least
ROUNDS = 7
MOST_SECONDS = 4.0  # for replaying
LONGEST_COPY = 0.3  # seconds that copying the arguments of one call may take
CLOSE = 1e-4  # relative difference up to which numbers are the same
DEEPEST = 12  # levels of objects that are compared

Call = tuple[tuple[Any, ...], dict[str, Any]]


class CannotReplay(Exception):
    """Why a function cannot be replayed."""


def replayed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of which some calls are recorded, and then replayed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return function
    recording = _Recording(function, Path(path))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:  # a function, so that it can be a method
        return recording.call(args, kwargs)

    return call


class _Recording:
    def __init__(self, function: Callable[..., Any], order: Path) -> None:
        self._function, self._order = function, order
        self._calls: list[Call] = []
        self._seen = self._depth = 0
        self._next = 0.0
        self._process = os.getpid()

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._depth or os.getpid() != self._process:
            return self._function(*args, **kwargs)
        self._seen += 1
        if self._seen > SKIPPED and time.perf_counter() >= self._next:
            self._record(args, kwargs)
        self._depth += 1
        try:
            return self._function(*args, **kwargs)
        finally:
            self._depth -= 1

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        began = time.perf_counter()
        try:
            self._calls.append(copy.deepcopy((args, kwargs)))
            if time.perf_counter() - began > LONGEST_COPY:
                raise CannotReplay("its arguments are too large to be copied")
        except Exception as error:
            self._end({"problem": f"its arguments cannot be copied ({type(error).__name__}: {error})"})
        self._next = time.perf_counter() + APART
        if len(self._calls) == RECORDED:
            self._end(self._result())

    def _result(self) -> dict[str, Any]:
        order = json.loads(self._order.read_text())
        try:
            rewrite = rewritten(self._function, order["name"], order["before"], order["after"])
            return compared(self._calls, self._function, rewrite)
        except CannotReplay as problem:
            return {"problem": str(problem)}
        except Exception as error:  # of the rewrite
            return {"problem": f"its rewrite failed ({type(error).__name__}: {error})"}

    def _end(self, result: dict[str, Any]) -> None:
        self._order.with_suffix(".result").write_text(json.dumps(result))
        raise StopProfiling


def rewritten(function: Callable[..., Any], name: str, before: str, after: str) -> Callable[..., Any]:
    """The function `name` ("f" or "Class.f") as a changed text has it, among the globals of the one that runs."""
    if getattr(function, "__closure__", None):
        raise CannotReplay("it refers to variables of another function")
    known = {ast.dump(node) for node in ast.parse(before).body}
    tree = ast.parse(after)
    was, node = _function(ast.parse(before), name), _function(tree, name)
    same = {ast.dump(decorator) for decorator in was.decorator_list}
    node.decorator_list = [decorator for decorator in node.decorator_list if ast.dump(decorator) not in same]
    owner = name.partition(".")[0]
    changed = [
        other
        for other in tree.body
        if ast.dump(other) not in known and getattr(other, "name", None) != owner and isinstance(other, _DEFINITIONS)
    ]
    namespace = dict(function.__globals__)
    exec(compile(ast.Module([*changed, node], []), function.__code__.co_filename, "exec"), namespace)
    result: Callable[..., Any] = namespace[node.name]
    return result


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    body: Sequence[ast.stmt] = tree.body
    *owners, last = name.split(".")
    for owner in owners:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner), [])
    found = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == last), None)
    if found is None:
        raise CannotReplay("it is not where it was")
    return found


def compared(calls: Sequence[Call], function: Callable[..., Any], rewrite: Callable[..., Any]) -> dict[str, Any]:
    """Seconds that all calls take in both forms, each call at its fastest; and whether both do the same."""
    forms = (function, rewrite)
    fastest = [[float("inf")] * len(calls) for _ in forms]
    same, until = True, time.perf_counter() + MOST_SECONDS
    for turn in range(ROUNDS):
        for number, call in enumerate(calls):
            outcomes: list[Any] = []
            for form in (0, 1) if (turn + number) % 2 else (1, 0):
                args, kwargs = copy.deepcopy(call)
                with _same_chance():
                    began = time.perf_counter()
                    result = forms[form](*args, **kwargs)
                    seconds = time.perf_counter() - began
                if turn:  # in the first one, the rewrite may have to be compiled
                    fastest[form][number] = min(fastest[form][number], seconds)
                else:
                    outcomes.append((result, args, kwargs))
            same = same and (bool(turn) or are_close(outcomes[0], outcomes[1]))
        if turn > 1 and time.perf_counter() > until:
            break
    return {"calls": len(calls), "before": sum(fastest[0]), "after": sum(fastest[1]), "same": same}


class _same_chance:
    """Random numbers are afterwards what they were before."""

    def __enter__(self) -> None:
        self._numpy, self._torch = (sys.modules.get(name) for name in ("numpy", "torch"))
        self._states = (
            random.getstate(),
            self._numpy.random.get_state() if self._numpy else None,
            self._torch.get_rng_state() if self._torch else None,
        )

    def __exit__(self, *_: Any) -> None:
        python, numpy, torch = self._states
        random.setstate(python)
        if self._numpy:
            self._numpy.random.set_state(numpy)
        if self._torch:
            self._torch.set_rng_state(torch)


def are_close(a: Any, b: Any, depth: int = 0) -> bool:
    """Whether two objects hold the same: numbers up to rounding, containers and objects part by part."""
    if depth > DEEPEST or a is b:
        return True
    if isinstance(a, (bool, str, bytes)) or a is None:
        return bool(a == b)
    if isinstance(a, (int, float)):
        is_near = isinstance(b, (int, float)) and abs(a - b) <= CLOSE * max(1.0, abs(a), abs(b))
        return is_near or (a != a and b != b)
    if hasattr(a, "detach") and hasattr(b, "detach"):
        a, b = a.detach().cpu().numpy(), b.detach().cpu().numpy()
    if hasattr(a, "__array__") or hasattr(b, "__array__"):
        numpy = sys.modules["numpy"]
        a, b = numpy.asarray(a), numpy.asarray(b)
        if a.shape != b.shape:
            return False
        return bool((a == b).all()) if a.dtype.kind in "OUSV" else bool(numpy.allclose(a, b, CLOSE, CLOSE, equal_nan=True))
    if type(a) is not type(b):
        return False
    pairs = list(_pairs(a, b))
    return all(are_close(x, y, depth + 1) for x, y in pairs)


def _pairs(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(a, dict):
        yield len(a), len(b)
        yield from ((value, b.get(key)) for key, value in a.items())
    elif isinstance(a, (list, tuple)):
        yield len(a), len(b)
        yield from zip(a, b)  # noqa: B905 - Python 3.9 has no strict
    elif isinstance(a, (set, frozenset)):
        yield str(sorted(map(repr, a))), str(sorted(map(repr, b)))
    elif hasattr(a, "__dict__"):
        with suppress(Exception):
            yield from ((value, vars(b).get(key)) for key, value in vars(a).items() if not callable(value))

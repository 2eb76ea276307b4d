"""The lines of the training loop, and the stage that each belongs to by what it does.

While a script warms up, hooks note from where it steps its environment and from where it trains. Between two windows the source
of those functions is read (`dataflow.py`, `forms.py`), once. From Python 3.12 on, Python then tells when one of those lines
begins, and time between events is split exactly there. Before, it is split in proportion to the stack samples.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hotlap.core.paths import STORE
from hotlap.probe.dataflow import Flow, after_step, from_parameters
from hotlap.probe.forms import forms_of, spans_by_form
from hotlap.probe.sampler import Stack, is_users
from hotlap.probe.syntax import Function, Span, followers, function_at

CAPTURES = 64  # environment steps, and backward passes, whose callers are noted
DEEPEST = 40  # frames
STUDIES = 8  # how often the source is read
MOST_FILES = 60  # of the user's, that are searched for functions
_TOOL_NAME = "hotlap"


class Place(NamedTuple):
    """A frame that was found on the stack."""

    code: CodeType
    line: int


Places = tuple[Place, ...]  # innermost first


class LoopLines:
    """`on_line` is told the stage that begins, or None where a line begins of which nothing is known."""

    def __init__(self, on_line: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._steps: set[Places] = set()
        self._trainings: set[Places] = set()
        self._left = {"step": CAPTURES, "train": CAPTURES, "study": STUDIES}
        self._trees: dict[str, ast.Module | None] = {}
        self._is_new = False
        self._paths: dict[tuple[str, int], dict[int, str]] = {}  # file and first line of a function -> line -> path
        self._monitor = _Monitor(on_line) if sys.version_info >= (3, 12) else None
        self.wants_steps = self.wants_trainings = True

    def note_step(self, frame: FrameType | None) -> None:
        """An environment steps, after something was learned."""
        self._left["step"] -= 1
        self.wants_steps = self._left["step"] > 0
        self._note(self._steps, frame)

    def note_training(self, frame: FrameType | None) -> None:
        """A backward pass begins."""
        self._left["train"] -= 1
        self.wants_trainings = self._left["train"] > 0
        self._note(self._trainings, frame)

    def _note(self, places: set[Places], frame: FrameType | None) -> None:
        stack = _users_stack(frame)
        if stack and stack not in places:
            places.add(stack)
            self._is_new = True

    def study(self) -> dict[str, str] | None:
        """Between two windows: find out what the lines do, if there are new ones; None if there are not.

        The user's functions whose stage is known, by name: where lines are not told as they begin, these can be hooked.
        """
        if not self._is_new or not self._steps or not self._trainings or not self._left["study"]:
            return None
        self._is_new = False
        self._left["study"] -= 1
        with suppress(Exception):  # strange sources must never be the script's trouble
            studied = _Study(self._steps, self._trainings, self._trees)
            self._paths = {place: _by_line(spans) for place, spans in studied.spans.items()}
            if self._monitor and self._monitor.watch(studied):
                return {}
            self._monitor = None  # other tools took all places
            return {**dict.fromkeys(studied.sinks, STORE), **studied.forms}
        return None

    def path_of(self, stack: Stack) -> str | None:
        """The stage of a stack sample by its lines; None if they say nothing, or if lines are told as they begin."""
        if self._monitor:
            return None
        for frame in stack:
            lines = self._paths.get((frame.file, frame.first_line))
            if lines is not None and frame.line in lines:
                return lines[frame.line]
        return None

    def close(self) -> None:
        if self._monitor:
            self._monitor.close()


class _Study:
    """The spans of the functions that step and train."""

    def __init__(self, steps: Iterable[Places], trainings: Iterable[Places], trees: dict[str, ast.Module | None]) -> None:
        self.functions: dict[CodeType, Function] = {}
        self.spans: dict[tuple[str, int], list[Span]] = {}
        self._trees = trees
        self._trainings = list(trainings)
        steps = list(steps)
        files = {place.code.co_filename for stack in (*steps, *self._trainings) for place in stack}.union(_user_files())
        self.sinks: set[str] = set()
        self.forms = forms_of(tree for file in sorted(files) if (tree := self._tree(file)) is not None)
        self._stepping: set[CodeType] = set()
        for stack in steps:
            self._follow_step(stack)
        for code in {place.code for stack in self._trainings for place in stack} | self._stepping:
            if (function := self._function(code)) is not None:
                self._add(code, spans_by_form(function, self.forms, self._training_lines(code), code in self._stepping))

    def _follow_step(self, stack: Places) -> None:
        for code, line in stack:
            function = self._function(code)
            if function is None:
                return
            self._stepping.add(code)
            flow = after_step(function, line, self._training_lines(code))
            self._follow(code, flow)
            if not flow.is_returned:
                return

    def _follow(self, code: CodeType, flow: Flow) -> None:
        self._add(code, flow.spans)
        self.sinks |= flow.sinks
        for handed in flow.handed:
            first, last = handed.statement.lineno, handed.statement.end_lineno or 0
            for inner in {inner for stack in self._trainings if (inner := _called_from(stack, code, first, last)) is not None}:
                function = self._function(inner)
                if function is not None and inner is not code:
                    self._follow(inner, from_parameters(function, handed, self._training_lines(inner)))

    def _add(self, code: CodeType, spans: Iterable[Span]) -> None:
        self.spans.setdefault((code.co_filename, code.co_firstlineno), []).extend(spans)

    def _training_lines(self, code: CodeType) -> frozenset[int]:
        return frozenset(place.line for stack in self._trainings for place in stack if place.code is code)

    def _function(self, code: CodeType) -> Function | None:
        tree = self._tree(code.co_filename)
        function = function_at(tree, code.co_name, code.co_firstlineno) if tree is not None else None
        if function is not None:
            self.functions[code] = function
        return function

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            self._trees[file] = None
            with suppress(SyntaxError, ValueError):
                self._trees[file] = ast.parse("".join(linecache.getlines(file)))
        return self._trees[file]


def _called_from(stack: Places, code: CodeType, first: int, last: int) -> CodeType | None:
    """The function that a statement had called when it trained."""
    for place, (outer, line) in enumerate(stack):
        if outer is code and first <= line <= last and place > 0:
            return stack[place - 1].code
    return None


def _users_stack(frame: FrameType | None) -> Places:
    places: list[Place] = []
    for _ in range(DEEPEST):
        if frame is None:
            break
        if is_users(frame.f_code.co_filename):
            places.append(Place(frame.f_code, frame.f_lineno or frame.f_code.co_firstlineno))
        frame = frame.f_back
    return tuple(places)


def _user_files() -> list[str]:
    modules = list(sys.modules.items())
    files = [getattr(module, "__file__", None) for name, module in modules if not name.startswith("hotlap")]
    return [file for file in files if isinstance(file, str) and file.endswith(".py") and is_users(file)][:MOST_FILES]


def _by_line(spans: Iterable[Span]) -> dict[int, str]:
    """Of spans that overlap, the first one counts: where data goes says more than the form of a statement."""
    lines: dict[int, str] = {}
    for first, last, path in spans:
        for line in range(first, last + 1):
            lines.setdefault(line, path)
    return lines


class _Monitor:
    """Tells when a line begins at which the stage changes (Python 3.12 and later)."""

    def __init__(self, on_line: Callable[[str | None], None]) -> None:
        self._on_line = on_line
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool: int | None = None
        self._begins: dict[CodeType, dict[int, str | None]] = {}

    def watch(self, studied: _Study) -> bool:
        if self._tool is None and not self._take_tool():
            return False
        for code, function in studied.functions.items():
            spans = studied.spans.get((code.co_filename, code.co_firstlineno), [])
            self._begins[code] = _boundaries(function, spans)
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE if spans else 0)
        self._monitoring.restart_events()
        return True

    def close(self) -> None:
        if self._tool is not None:
            for code in self._begins:
                self._monitoring.set_local_events(self._tool, code, 0)
            self._monitoring.free_tool_id(self._tool)
            self._tool = None

    def _take_tool(self) -> bool:
        for tool in (4, 3):  # the two that belong to no kind of tool
            if self._monitoring.get_tool(tool) is None:
                self._monitoring.use_tool_id(tool, _TOOL_NAME)
                self._monitoring.register_callback(tool, self._monitoring.events.LINE, self._line)
                self._tool = tool
                return True
        return False

    def _line(self, code: CodeType, line: int) -> Any:
        begins = self._begins.get(code)
        if begins is None or line not in begins:
            return self._monitoring.DISABLE
        self._on_line(begins[line])
        return None


def _boundaries(function: Function, spans: list[Span]) -> dict[int, str | None]:
    """The lines at which the stage may change, and what it is from there on."""
    lines = _by_line(spans)
    begins: dict[int, str | None] = {}
    for span in spans:
        begins[span.first] = lines[span.first]
        for line in followers(function, span):
            begins[line] = lines.get(line)
    return begins

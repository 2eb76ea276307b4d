"""Loops of user code: which of them drive training, and which are work that Python repeats.

A loop drives training if environments step, or something is learned, inside it: the loops over steps, epochs and minibatches.
Any other loop is work.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hotlap.causes.stacks import StackSample
from hotlap.core import stages
from hotlap.core.paths import ENVIRONMENT
from hotlap.interventions.code import Code
from hotlap.record.stacks import Frame

SELDOM = 0.03  # of a loop's time: stack samples at the edges of a stage may be in the wrong one
_DRIVES = re.compile(r"\.(step|backward)\(")

Key = tuple[str, int, int]  # of a loop: its file, line and column


@dataclass(frozen=True)
class WorkLoop:
    """A loop that a stack sample was seen in, and the frame whose line it repeats."""

    file: str
    node: ast.AST
    frame: Frame
    chain: tuple[tuple[str, int], ...]  # the lines of user code that led to it
    in_environment: bool

    @property
    def key(self) -> Key:
        return _key(self.file, self.node)


def _key(file: str, node: ast.AST) -> Key:
    return file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class Loops:
    """The loops of a run's code, as its stack samples show them."""

    def __init__(self, stacks: Sequence[StackSample], codes: Mapping[str, Code]) -> None:
        self._codes = codes
        self._around: dict[Frame, list[ast.stmt | ast.expr]] = {}
        self._driving: set[Key] = set()
        self._functions: set[tuple[str, str]] = set()  # with loops like that, or called by them to step and to learn
        self._lines: set[tuple[str, int]] = set()  # that step, learn or call what does
        self._find_drivers(stacks)

    def around(self, frame: Frame) -> list[ast.stmt | ast.expr]:
        """The loops of its own function that repeat a frame's line, the outermost first."""
        if frame not in self._around:
            code = self._codes.get(frame.file)
            self._around[frame] = code.loops(frame.line) if code else []
        return self._around[frame]

    def _find_drivers(self, stacks: Sequence[StackSample]) -> None:
        """Loops and functions in which environments step or something is learned."""
        loops: defaultdict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds, and how many of them drive
        functions: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        lines: defaultdict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for stack in stacks:
            below = set(stack.below_step())
            for frame in filter(lambda frame: frame.user, stack.frames):
                steps = stack.stage in (*ENVIRONMENT, stages.EVALUATE) and frame not in below
                drives = stack.seconds if steps or stack.learns() else 0.0
                around = [loops[_key(frame.file, node)] for node in self.around(frame)]
                for time in (functions[frame.file, frame.name], lines[frame.file, frame.line], *around):
                    time[0] += stack.seconds
                    time[1] += drives
        self._driving = {key for key, (seconds, driving) in loops.items() if driving > SELDOM * seconds}
        self._functions = {place for place, (seconds, driving) in functions.items() if driving > SELDOM * seconds}
        self._lines = {line for line, (seconds, driving) in lines.items() if driving > SELDOM * seconds}

    def drives(self, file: str, node: ast.AST) -> bool:
        """Whether a loop outside of environments drives training: by what was seen in it, or by its code."""
        return _key(file, node) in self._driving or bool(_DRIVES.search(self._codes[file].source(node)))

    def is_driver(self, frame: Frame) -> bool:
        """Whether a frame is the training loop's: of a function that steps environments and learns, or calls what does."""
        if frame.name == "<module>" or (frame.file, frame.name) in self._functions:
            return True
        return any(self.drives(frame.file, node) for node in self.around(frame))

    def runs_training(self, frame: Frame) -> bool:
        """Whether a line itself steps or learns, or calls what does: `model.learn(...)`."""
        return (frame.file, frame.line) in self._lines

    def work(self, stack: StackSample) -> Iterator[WorkLoop]:
        """The loops that do not drive training and repeat lines of this stack, the outermost first."""
        below = set(stack.below_step()) if stack.stage in ENVIRONMENT else set()
        chain: tuple[tuple[str, int], ...] = ()
        for frame in stack.frames:
            if not frame.user:
                continue
            inside = frame in below  # whatever a game calls its own methods, its loops are work
            for node in self.around(frame):
                if inside or not self.drives(frame.file, node):
                    yield WorkLoop(frame.file, node, frame, chain, inside)
            chain = (*chain, (frame.file, frame.line)) if inside or not below else ()

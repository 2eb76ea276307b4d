"""Which lines take the time: the stack of the thread that trains, sampled forty times a second.

The thread samples itself. A clock in C (core.c), which needs no lock of Python's, asks it to by a signal; it does so between
two of its own instructions, so a stack sample shows what ran when the clock struck. If native code ran (a kernel, a matrix
product), the sample is taken when that returns, and the time since the last sample is charged to the line that called it.

Whether native code ran is a property of the stack sample. Three signs tell. The thread slept in the system, or the sample came
late: it waited for native code to return. Where the processor was when the signal came: in the interpreter, or elsewhere. Where
that is not known, the instruction of the innermost frame: Python handles signals after a call of native code has returned, when
a function begins and when a loop begins again, so an instruction that calls means that native code had been called.

Without core.c, or on another thread than the main one, a thread of Python's takes the samples. It needs Python's lock: to get
it soon, and not only when the watched thread happens to release it, the switch interval is short while it runs. How long the
lock took also tells what was running: Python code gives it up after the switch interval, native code that has released it lets
us in at once. But it sees more of lines that release the lock than there is.
"""

from __future__ import annotations

import dis
import linecache
import opcode
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hotlap.probe import core
from hotlap.record.observed import HotLine

SIGNAL = signal.SIGURG  # by default it does nothing, and hardly anything uses it
LATE = 5e-4  # seconds: a sample that is taken later than this waited for native code to return
SWITCH_INTERVAL = 1e-4  # seconds the watched thread may keep Python's lock once the sampler asks for it
MOST_STACKS = 20_000
DEEPEST = 100  # frames of a stack, from the innermost
FUTEX = "202"  # the system call behind locks, Python's own among them
CALLS = ("CALL", "PRECALL", "BINARY_MATRIX_MULTIPLY", "INPLACE_MATRIX_MULTIPLY")  # how instructions begin that call native code
PYTHON_GIVES_WAY = ("RESUME", "JUMP", "POP_JUMP")  # how others begin at which Python handles signals and changes threads
_PACKAGE = Path(__file__).parents[1]
_INSTALLED = tuple(os.path.join(sys.prefix, name, "") for name in ("bin", "lib", "lib64"))  # noqa: PTH118 - not all of /usr
# How the paths of files begin that no user wrote.
_OTHERS = ("<", str(Path(os.__file__).parent) + os.sep, *_INSTALLED, str(_PACKAGE) + os.sep)
_HIDDEN = (str(_PACKAGE / "probe"), str(_PACKAGE / "launch"), "<frozen runpy>")  # frames of hotlap say nothing about the script


class Frame(NamedTuple):
    file: str
    function: str
    first_line: int
    line: int


Stack = tuple[Frame, ...]  # innermost first


class StackSample(NamedTuple):
    stage: object  # its name, or what becomes its name with `str`
    stack: Stack
    seconds: float  # since the sample before
    native: bool  # whether native code ran, called by the innermost frame
    waited: bool  # whether that was one long call, or the thread slept: no loop of Python's keeps it busy


class Sampler:
    """Times the stacks of the thread that created it, per stage, between `resume` and `pause`.

    `open_stage` is given the time, the stack and the seconds since the sample before, and tells the stage that is open: its
    name, or something that becomes its name with `str` by the time of `keep`.
    """

    def __init__(self, open_stage: Callable[[int, Stack, float], object], period: float = 0.025) -> None:
        self._open_stage = open_stage
        self._period = period
        self._watched = threading.get_ident()
        self._system_call = Path(f"/proc/self/task/{threading.get_native_id()}/syscall")
        self._times: dict[tuple[str, Stack], list[float]] = {}  # seconds, and how many of them native, and waited
        self._fresh: list[StackSample] = []  # taken since the last `keep`
        self._running = threading.Event()
        self._switch_interval = sys.getswitchinterval()
        self._stopped = False
        self._last = 0  # when the last sample was taken, pauses since then left out
        self._unsampled = 0  # at a pause: the time since the last sample. The next one is charged with it.
        self._sampling = False
        self.seconds = 0.0  # CPU time the sampler itself used
        self._thread: threading.Thread | None = None
        self._ticks = core.ticker is not None and threading.current_thread() is threading.main_thread()
        if self._ticks:
            self._handler = signal.signal(SIGNAL, self._on_signal)
            signal.siginterrupt(SIGNAL, False)  # system calls go on after it
            core.ticker.ticker_start(int(period * 1e9), SIGNAL)
        else:
            self._thread = threading.Thread(target=self._watch, name="hotlap-sampler", daemon=True)
            self._thread.start()

    def resume(self) -> None:
        if not self._running.is_set():
            self._last = time.perf_counter_ns() - self._unsampled
            if self._ticks:
                core.ticker.ticker_run(True)
            else:
                sys.setswitchinterval(SWITCH_INTERVAL)
            self._running.set()

    def pause(self) -> None:
        if self._running.is_set():
            self._unsampled = time.perf_counter_ns() - self._last
        self._running.clear()
        if self._ticks:
            core.ticker.ticker_run(False)
        else:
            sys.setswitchinterval(self._switch_interval)

    def keep(self) -> None:
        """What was sampled until now counts; what is never kept, such as the end of a script, does not."""
        samples, self._fresh = self._fresh, []
        for sample in samples:
            key = (str(sample.stage), sample.stack)  # by now the stage's name is known
            if key in self._times or len(self._times) < MOST_STACKS:
                entry = self._times.setdefault(key, [0.0, 0.0, 0.0])
                entry[0] += sample.seconds
                entry[1] += sample.seconds * sample.native
                entry[2] += sample.seconds * sample.waited

    def close(self) -> None:
        self.pause()
        self._stopped = True
        self._running.set()
        if self._thread:
            self._thread.join()
        else:
            core.ticker.ticker_stop()
            if threading.current_thread() is threading.main_thread():  # others must not; without the clock no signal comes
                signal.signal(SIGNAL, self._handler or signal.SIG_DFL)

    def hottest(self, limit: int = 10) -> tuple[HotLine, ...]:
        """The lines that took longest, as shares of the time watched, with their source and with what they called."""
        return tuple(_hot_line(*row) for row in self._ranked(lambda frame: frame, 0)[:limit])

    def functions(self, limit: int = 30) -> tuple[HotLine, ...]:
        """The functions that took longest with what they called, those left out that only pass on to one other."""
        ranked = self._ranked(lambda frame: frame._replace(line=0), 1)
        return tuple(_hot_line(*row) for row in ranked if row[1] > 0.001)[:limit]

    def user_lines(self, limit: int = 10) -> tuple[HotLine, ...]:
        """The lines of user code that took longest, with all library code that they called."""
        watched = self._watched_seconds
        times: defaultdict[tuple[str, Frame], float] = defaultdict(float)
        for (stage, stack), (seconds, *_) in self._times.items():
            if (innermost := next((frame for frame in stack if is_users(frame.file)), None)) is not None:
                times[stage, innermost] += seconds
        ranked = sorted(times.items(), key=lambda item: -item[1])[:limit]
        return tuple(_hot_line(place, seconds / watched) for place, seconds in ranked)

    def files(self, wanted: Callable[[str], bool]) -> dict[str, Path]:
        """The files that were seen and are wanted, by their short names."""
        seen = {frame.file for _, stack in self._times for frame in stack}
        return {shorten(file): Path(file) for file in sorted(seen) if wanted(file)}

    def stacks(self) -> dict[str, Any]:
        """All stacks, for exports: frames once, stacks as their numbers."""
        frames: dict[Frame, int] = {}
        stacks = [
            [stage, [frames.setdefault(frame, len(frames)) for frame in reversed(stack)], *times]
            for (stage, stack), times in self._times.items()
        ]
        named = [{"name": f.function, "file": shorten(f.file), "line": f.line, "user": is_users(f.file)} for f in frames]
        return {"frames": named, "stacks": stacks}

    @property
    def _watched_seconds(self) -> float:
        return sum(seconds for seconds, *_ in self._times.values()) or 1.0

    def _ranked(self, key: Callable[[Frame], Frame], by: int) -> list[tuple[tuple[str, Frame], float, float, bool]]:
        """(stage, frame), exclusive share, inclusive share, whether mostly native; the largest first, by one of the shares."""
        watched = self._watched_seconds
        times: defaultdict[tuple[str, Frame], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for (stage, stack), (seconds, native, _) in self._times.items():
            innermost = times[stage, key(stack[0])]
            innermost[0] += seconds
            innermost[2] += native
            for frame in {key(frame) for frame in stack}:
                times[stage, frame][1] += seconds
        ranked = sorted(times.items(), key=lambda item: -item[1][by])
        return [
            (place, exclusive / watched, inclusive / watched, native > exclusive / 2)
            for place, (exclusive, inclusive, native) in ranked
        ]

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        """Called by the clock, as the handler of a signal, on the thread that is watched."""
        began, (asked, delivered, asleep, outside) = time.perf_counter_ns(), core.ticker.ticker_when()
        if self._sampling or not self._running.is_set():  # the clock struck again while a sample was being taken, or in a pause
            return
        self._sampling = True
        if frame is not None and asked and (stack := _stack_of_this_thread(frame)):
            struck = max(asked, delivered)  # a signal takes longer to arrive than short stages last
            late = (began - struck) * 1e-9
            waited = bool(asleep) or late > LATE
            native = waited or (bool(outside) if outside >= 0 else is_at_call(frame))
            seconds = (began - self._last) * 1e-9
            self._fresh.append(StackSample(self._open_stage(struck, stack, seconds), stack, seconds, native, waited))
        self._last = time.perf_counter_ns()
        self.seconds += (self._last - began) * 1e-9
        self._sampling = False

    def _watch(self) -> None:
        while True:
            self._running.wait()
            if self._stopped:
                break
            due = time.perf_counter() + self._period
            time.sleep(self._period)
            late = time.perf_counter() - due
            frame = sys._current_frames().get(self._watched)
            if frame is not None and self._running.is_set() and not self._stopped:
                now = time.perf_counter_ns()
                if stack := _stack(frame):
                    stage = self._open_stage(now, stack, self._period + late)
                    native = _is_native(frame, late) or _is_asleep(self._system_call)
                    self._fresh.append(StackSample(stage, stack, self._period + late, native, native))
            del frame  # a frame kept here would keep its locals alive
            self.seconds = time.thread_time()


def _hot_line(
    place: tuple[str, Frame], exclusive: float, inclusive: float | None = None, native: bool | None = None
) -> HotLine:
    """A line, or a function, which has no line and no source."""
    stage, frame = place
    return HotLine(
        share=exclusive,
        stage=stage,
        where=f"{shorten(frame.file)}:{frame.line or frame.first_line}",
        function=frame.function,
        code=linecache.getline(frame.file, frame.line).strip() if frame.line else "",
        cumulative=inclusive,
        native=native,
    )


@lru_cache(maxsize=4096)  # asked for every frame of a stack
def is_users(file: str) -> bool:
    """Whether this is user code: no installed package, no part of Python, nothing of hotlap's."""
    return not file.startswith(_OTHERS) and "-packages" not in file


def _compile_walk() -> Callable[[FrameType, list[Any], list[int]], None]:
    """A function that lists the code and line of a frame and of those that called it.

    While it walks, the watched thread must not run: frames would end under our feet. Python changes threads at calls, at
    the ends of loops and at the beginnings of functions; so the walk has none of these, only attributes, one after another.
    """
    steps = "".join(
        f"    codes[{i}] = frame.f_code; lines[{i}] = frame.f_lineno; frame = frame.f_back\n" for i in range(DEEPEST)
    )
    scope: dict[str, Any] = {}
    exec(f"def walk(frame, codes, lines):\n{steps}", scope)
    return scope["walk"]  # type: ignore[no-any-return]


_walk = _compile_walk()


def _stack(frame: FrameType) -> Stack:
    codes: list[Any] = [None] * DEEPEST
    lines = [0] * DEEPEST
    with suppress(AttributeError):  # beyond the outermost frame
        _walk(frame, codes, lines)
    return tuple(
        Frame(code.co_filename, code.co_name, code.co_firstlineno, line or code.co_firstlineno)
        for code, line in zip(codes, lines)
        if code is not None and not code.co_filename.startswith(_HIDDEN)
    )


def _line_before(code: CodeType, place: int) -> int:
    """The line of the last instruction that has one: the jump at the end of a loop has none."""
    lines = [line for begin, line in dis.findlinestarts(code) if line is not None and begin <= place]
    return lines[-1] if lines else code.co_firstlineno


def _stack_of_this_thread(frame: FrameType | None) -> Stack:
    """The stack of a thread that stands still."""
    frames: list[Frame] = []
    while frame is not None and len(frames) < DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(_HIDDEN):
            line = frame.f_lineno or _line_before(code, frame.f_lasti)
            frames.append(Frame(code.co_filename, code.co_name, code.co_firstlineno, line))
        frame = frame.f_back
    return tuple(frames)


def is_at_call(frame: FrameType) -> bool:
    """Whether a frame in which Python handles a signal has just called native code.

    Python 3.10 and later handle signals after such calls, at the beginnings of functions and at jumps back. Python 3.9 does so
    after many instructions; those of arithmetic count as Python there, because numbers are added more often than arrays.
    """
    return _instruction(frame).startswith(CALLS)


def _instruction(frame: FrameType) -> str:
    """The name of the last instruction, as it was compiled: Python's own specialised forms do not show in `co_code`."""
    code, place = frame.f_code.co_code, frame.f_lasti
    if place < 0:
        return "RESUME"  # before Python 3.11: nothing of the function has run
    while place > 0 and opcode.opname[code[place]] == "CACHE":
        place -= 2
    return opcode.opname[code[place]]


def _is_native(frame: FrameType, waited: float) -> bool:
    """Whether a thread ran native code, seen from another one that waited this long for Python's lock."""
    name = _instruction(frame)
    if name.startswith(PYTHON_GIVES_WAY):
        return False
    if name.startswith(CALLS) or sys.version_info < (3, 10):  # which gives way at most instructions
        return waited < SWITCH_INTERVAL  # Python would have kept the lock for longer
    return True


def _is_asleep(system_call: Path) -> bool:
    """Whether a thread waits in the system, for anything but a lock."""
    try:
        number = system_call.read_text().split()[0]
    except (OSError, IndexError):
        return False
    return number not in ("running", FUTEX)


def shorten(file: str) -> str:
    """A path for people: below the working folder, or below where it was imported from."""
    if cell := _cell(file):
        return cell
    folders = [Path.cwd(), *(Path(folder) for folder in sys.path if folder)]
    path = Path(file)
    for root in sorted(folders, key=lambda root: -len(root.parts)):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


def _cell(file: str) -> str | None:
    """A notebook's cell, as it is numbered there: IPython compiles it under the name of a file that does not exist."""
    if "ipython-input-" not in file and "ipykernel_" not in file:
        return None
    try:
        shell = sys.modules["IPython"].get_ipython()
        return f"In[{shell.compile._filename_map[file]}]"
    except (KeyError, AttributeError):  # an old IPython: the name has the number
        number = file.partition("ipython-input-")[2].partition("-")[0]
        return f"In[{number}]" if number.isdecimal() else None

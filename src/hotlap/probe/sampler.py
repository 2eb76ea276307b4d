"""Which lines burn the time: the stack of the thread that trains, looked at forty times a second.

The thread looks at itself. A clock in C (core.c), which needs no lock of Python's, asks it to; it does so between two of its
own instructions, so a look sees what ran when the clock struck. If native code ran (a kernel, a matrix product), the look comes
when that returns, late, and the time since the last look is charged to the Python line that called it.

Without core.c, or on another thread than the main one, a thread of Python's looks instead. It needs Python's lock: to get it
soon, and not only when the watched thread happens to release it, the switch interval is short while it runs. How long the lock
took also tells what was running: Python code gives it up after the switch interval, native code that has released it lets us in
at once. But it sees more of lines that release the lock than there is.
"""

import linecache
import opcode
import os
import signal
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from hotlap.probe import core

SIGNAL = signal.SIGURG  # by default it does nothing, and hardly anything uses it
LATE = 5e-4  # seconds: a look that comes later than this waited for native code to return
SWITCH_INTERVAL = 1e-4  # seconds the watched thread may keep Python's lock once the sampler asks for it
MOST_STACKS = 20_000
DEEPEST = 100  # frames of a stack, from the innermost
FUTEX = "202"  # the system call behind locks, Python's own among them
_OWN = (
    str(Path(__file__).parent),
    str(Path(__file__).parents[1] / "launch"),
    "<frozen runpy>",
)  # frames of the probe itself say nothing about the script


class Frame(NamedTuple):
    file: str
    function: str
    first_line: int
    line: int


Stack = tuple[Frame, ...]  # innermost first


class Sampler:
    """Times the stacks of the thread that created it, per stage, between `resume` and `pause`.

    `open_stage` tells the stage that is open: its name, or something that becomes its name with `str` by the time of `keep`.
    """

    def __init__(self, open_stage: Callable[[int], object], period: float = 0.025) -> None:
        self._open_stage = open_stage
        self._period = period
        self._watched = threading.get_ident()
        self._system_call = Path(f"/proc/self/task/{threading.get_native_id()}/syscall")
        self._times: dict[tuple[str, Stack], list[float]] = {}  # seconds, and how many of them native
        self._fresh: list[tuple[object, Stack, float, bool]] = []  # seen since the last `keep`
        self._running = threading.Event()
        self._switch_interval = sys.getswitchinterval()
        self._stopped = False
        self._last = 0  # when it looked last
        self.seconds = 0.0  # CPU time the sampler itself used
        self._thread: threading.Thread | None = None
        self._ticks = core.ticker is not None and threading.current_thread() is threading.main_thread()
        if self._ticks:
            self._handler = signal.signal(SIGNAL, self._look)
            signal.siginterrupt(SIGNAL, False)  # system calls go on after it
            core.ticker.ticker_start(int(period * 1e9), SIGNAL)
        else:
            self._thread = threading.Thread(target=self._watch, name="hotlap-sampler", daemon=True)
            self._thread.start()

    def resume(self) -> None:
        if not self._running.is_set():
            self._last = time.perf_counter_ns()
            if self._ticks:
                core.ticker.ticker_run(True)
            else:
                sys.setswitchinterval(SWITCH_INTERVAL)
            self._running.set()

    def pause(self) -> None:
        self._running.clear()
        if self._ticks:
            core.ticker.ticker_run(False)
        else:
            sys.setswitchinterval(self._switch_interval)

    def keep(self) -> None:
        """What was seen until now counts; what is never kept, such as the end of a script, does not."""
        seen, self._fresh = self._fresh, []
        for open_stage, stack, seconds, native in seen:
            stage = str(open_stage)  # by now its name is known
            if (stage, stack) in self._times or len(self._times) < MOST_STACKS:
                entry = self._times.setdefault((stage, stack), [0.0, 0.0])
                entry[0] += seconds
                entry[1] += seconds * native

    def close(self) -> None:
        self.pause()
        self._stopped = True
        self._running.set()
        if self._thread:
            self._thread.join()
        else:
            core.ticker.ticker_stop()
            signal.signal(SIGNAL, self._handler or signal.SIG_DFL)

    def hottest(self, limit: int = 10) -> list[dict[str, Any]]:
        """The lines that took longest, as shares of the time watched, with their source and with what they called."""
        return [
            {
                "share": own,
                "cumulative": total,
                "native": native,
                "stage": stage,
                "where": f"{shorten(frame.file)}:{frame.line}",
                "function": frame.function,
                "code": linecache.getline(frame.file, frame.line).strip(),
            }
            for (stage, frame), own, total, native in self._ranked(lambda frame: frame, 0)[:limit]
        ]

    def functions(self, limit: int = 30) -> list[dict[str, Any]]:
        """The functions that took longest with what they called, those left out that only pass on to one other."""
        return [
            {
                "share": own,
                "cumulative": total,
                "native": native,
                "stage": stage,
                "where": f"{shorten(frame.file)}:{frame.first_line}",
                "function": frame.function,
            }
            for (stage, frame), own, total, native in self._ranked(lambda frame: frame._replace(line=0), 1)
            if own > 0.001
        ][:limit]

    def own_lines(self, limit: int = 10) -> list[dict[str, Any]]:
        """The lines of the user's own code that took longest, with all library code that they called."""
        whole = sum(seconds for seconds, _ in self._times.values()) or 1.0
        times: defaultdict[tuple[str, Frame], float] = defaultdict(float)
        for (stage, stack), (seconds, _) in self._times.items():
            if (mine := next((frame for frame in stack if is_users(frame.file)), None)) is not None:
                times[stage, mine] += seconds
        return [
            {
                "share": seconds / whole,
                "stage": stage,
                "where": f"{shorten(frame.file)}:{frame.line}",
                "function": frame.function,
                "code": linecache.getline(frame.file, frame.line).strip(),
            }
            for (stage, frame), seconds in sorted(times.items(), key=lambda item: -item[1])[:limit]
        ]

    def files(self, wanted: Callable[[str], bool]) -> dict[str, Path]:
        """The files that were seen and are wanted, by their short names."""
        seen = {frame.file for _, stack in self._times for frame in stack}
        return {shorten(file): Path(file) for file in sorted(seen) if wanted(file)}

    def stacks(self) -> dict[str, Any]:
        """All stacks, for exports: frames once, stacks as their numbers."""
        frames: dict[Frame, int] = {}
        stacks = [
            [stage, [frames.setdefault(frame, len(frames)) for frame in reversed(stack)], seconds, native]
            for (stage, stack), (seconds, native) in self._times.items()
        ]
        named = [{"name": f.function, "file": shorten(f.file), "line": f.line, "own": is_users(f.file)} for f in frames]
        return {"frames": named, "stacks": stacks}

    def _ranked(self, key: Callable[[Frame], Frame], by: int) -> list[tuple[tuple[str, Frame], float, float, bool]]:
        """(stage, frame), own share, share with what it called, whether mostly native; the largest first, by one of the two."""
        whole = sum(seconds for seconds, _ in self._times.values()) or 1.0
        times: defaultdict[tuple[str, Frame], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for (stage, stack), (seconds, native) in self._times.items():
            innermost = times[stage, key(stack[0])]
            innermost[0] += seconds
            innermost[2] += native
            for frame in {key(frame) for frame in stack}:
                times[stage, frame][1] += seconds
        ranked = sorted(times.items(), key=lambda item: -item[1][by])
        return [(which, own / whole, total / whole, native > own / 2) for which, (own, total, native) in ranked]

    def _look(self, _: int, frame: FrameType | None) -> None:
        """Called by the clock, as the handler of a signal, on the thread that is watched."""
        began, (asked, asleep) = time.perf_counter_ns(), core.ticker.ticker_when()
        if asked and self._running.is_set() and (stack := _own_stack(frame)):
            late = (began - asked) * 1e-9
            self._fresh.append((self._open_stage(asked), stack, (began - self._last) * 1e-9, bool(asleep) or late > LATE))
        self._last = time.perf_counter_ns()
        self.seconds += (self._last - began) * 1e-9

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
                stage = self._open_stage(time.perf_counter_ns())
                if stack := _stack(frame):
                    native = _is_native(frame, late) or _is_asleep(self._system_call)
                    self._fresh.append((stage, stack, self._period + late, native))
            del frame  # a frame kept here would keep its locals alive
            self.seconds = time.thread_time()


def is_users(file: str) -> bool:
    """Whether this is the user's own code: no installed package, no part of Python."""
    return not file.startswith(("<", sysconfig.get_path("stdlib") + os.sep, sys.prefix + os.sep)) and "-packages" not in file


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
        for code, line in zip(codes, lines, strict=True)
        if code is not None and not code.co_filename.startswith(_OWN)
    )


def _line_before(code: CodeType, place: int) -> int:
    """The line of the last instruction that has one: the jump at the end of a loop has none."""
    lines = [line for begin, _, line in code.co_lines() if line is not None and begin <= place]
    return lines[-1] if lines else code.co_firstlineno


def _own_stack(frame: FrameType | None) -> Stack:
    """The stack of a thread that stands still."""
    found: list[Frame] = []
    while frame is not None and len(found) < DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            line = frame.f_lineno or _line_before(code, frame.f_lasti)
            found.append(Frame(code.co_filename, code.co_name, code.co_firstlineno, line))
        frame = frame.f_back
    return tuple(found)


def _is_native(frame: FrameType, waited: float) -> bool:
    """Whether native code was running. Python gives way at calls, loop ends and the beginnings of functions only."""
    name = opcode.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else "RESUME"
    if name.startswith(("RESUME", "JUMP_BACKWARD")):
        return False
    if name.startswith(("CALL", "PRECALL")):
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
    folders = [Path.cwd(), *(Path(folder) for folder in sys.path if folder)]
    path = Path(file)
    for root in sorted(folders, key=lambda root: -len(root.parts)):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name

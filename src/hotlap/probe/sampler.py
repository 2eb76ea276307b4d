"""Which lines burn the time: a thread that looks at another thread's stack forty times a second.

The thread being watched is never stopped. Time inside native code (a kernel, a matrix product) is charged to the Python line
that called it. Looking needs Python's lock. To get it soon, and not only when the watched thread happens to release it, the
switch interval is short while the sampler runs; and a look that came late counts for longer.
"""

import linecache
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SWITCH_INTERVAL = 1e-4  # seconds the watched thread may keep Python's lock once the sampler asks for it


class Line(NamedTuple):
    stage: str
    file: str
    line: int
    function: str


class Sampler:
    """Times the innermost lines of the thread that created it, per stage, between `resume` and `pause`."""

    def __init__(self, open_stage: Callable[[], str], period: float = 0.025) -> None:
        self._open_stage = open_stage
        self._period = period
        self._watched = threading.get_ident()
        self._times: defaultdict[Line, float] = defaultdict(float)
        self._running = threading.Event()
        self._switch_interval = sys.getswitchinterval()
        self._stopped = False
        self.seconds = 0.0  # CPU time the sampler itself used
        self._thread = threading.Thread(target=self._watch, name="hotlap-sampler", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._running.set()

    def pause(self) -> None:
        self._running.clear()
        sys.setswitchinterval(self._switch_interval)

    def close(self) -> None:
        self.pause()
        self._stopped = True
        self._running.set()
        self._thread.join()

    def hottest(self, limit: int = 10) -> list[dict[str, Any]]:
        """The lines that took longest, as shares of the time watched, with their source."""
        total = sum(self._times.values())
        longest = sorted(self._times.items(), key=lambda item: -item[1])[:limit]
        return [
            {
                "share": seconds / total,
                "stage": line.stage,
                "where": f"{shorten(line.file)}:{line.line}",
                "function": line.function,
                "code": linecache.getline(line.file, line.line).strip(),
            }
            for line, seconds in longest
        ]

    def _watch(self) -> None:
        while True:
            self._running.wait()
            if self._stopped:
                break
            due = time.perf_counter() + self._period
            time.sleep(self._period)
            frame = sys._current_frames().get(self._watched)
            if frame is not None and self._running.is_set():
                code = frame.f_code
                line = Line(self._open_stage(), code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
                self._times[line] += self._period + time.perf_counter() - due
            del frame  # a frame kept here would keep its locals alive
            self.seconds = time.thread_time()


def shorten(file: str) -> str:
    """A path for people: below the working folder, or below where it was imported from."""
    roots = [Path.cwd(), *(Path(folder) for folder in sys.path if folder)]
    path = Path(file)
    for root in sorted(roots, key=lambda root: -len(root.parts)):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name

"""Which lines burn the time: a thread that looks at another thread's stack forty times a second.

A sample costs one walk to the innermost frame; the thread being watched is never stopped. Time inside native code (a kernel,
a matrix product) is charged to the Python line that called it.
"""

import linecache
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Line(NamedTuple):
    stage: str
    file: str
    line: int
    function: str


class Sampler:
    """Counts the innermost line of the thread that created it, per stage, between `resume` and `pause`."""

    def __init__(self, open_stage: Callable[[], str], period: float = 0.025) -> None:
        self._open_stage = open_stage
        self._period = period
        self._watched = threading.get_ident()
        self._counts: Counter[Line] = Counter()
        self._running = threading.Event()
        self._stopped = False
        self.seconds = 0.0  # CPU time the sampler itself used
        self._thread = threading.Thread(target=self._watch, name="hotlap-sampler", daemon=True)
        self._thread.start()

    def resume(self) -> None:
        self._running.set()

    def pause(self) -> None:
        self._running.clear()

    def stop(self) -> None:
        self._stopped = True
        self._running.set()
        self._thread.join()

    def hottest(self, limit: int = 10) -> list[dict[str, Any]]:
        """The lines seen most often, as shares of all samples, with their source."""
        total = sum(self._counts.values())
        return [
            {
                "share": count / total,
                "samples": count,
                "stage": line.stage,
                "where": f"{shorten(line.file)}:{line.line}",
                "function": line.function,
                "code": linecache.getline(line.file, line.line).strip(),
            }
            for line, count in self._counts.most_common(limit)
        ]

    def _watch(self) -> None:
        while True:
            self._running.wait()
            if self._stopped:
                break
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                code = frame.f_code
                self._counts[Line(self._open_stage(), code.co_filename, frame.f_lineno, code.co_name)] += 1
            del frame  # a frame kept here would keep its locals alive
            self.seconds = time.thread_time()
            time.sleep(self._period)


def shorten(file: str) -> str:
    """A path for people: below the working folder, or below site-packages or the standard library."""
    roots = [Path.cwd(), *(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib"))]
    path = Path(file)
    for root in sorted(roots, key=lambda root: -len(root.parts)):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name

"""Time that a thread waits for a core on which other programs run: a neighbour's doing, not the script's.

Linux keeps it for each thread. What the script's own processes and other threads took at the same time is not a neighbour's, so
that much is subtracted: what is left is surely others'. Elsewhere nothing is known, and nothing is left out.
"""

from __future__ import annotations

import resource
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hotlap.core.machine import descendants
from hotlap.core.processes import cpu_seconds


class _Moment(NamedTuple):
    thread: int
    clock: float
    waited: float  # of this thread, for a core
    own: float  # CPU time of the script's processes and other threads


class Contention:
    """What the thread that asks waited for other programs since it last asked."""

    def __init__(self) -> None:
        self._last = _now()

    def share(self) -> float:
        """Of the time since then: 0 to 1."""
        before, now = self._last, _now()
        self._last = now
        if now.thread != before.thread or now.clock <= before.clock:
            return 0.0
        others = (now.waited - before.waited) - max(0.0, now.own - before.own)
        return min(max(others / (now.clock - before.clock), 0.0), 0.99)


def _now() -> _Moment:
    thread, waited = threading.get_native_id(), 0.0
    with suppress(OSError, ValueError, IndexError):
        waited = int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1]) * 1e-9
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = sum(cpu_seconds(pid) or 0.0 for pid in descendants()) + ended.ru_utime + ended.ru_stime
    return _Moment(thread, time.monotonic(), waited, time.process_time() - time.thread_time() + children)

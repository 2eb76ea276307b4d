"""What a process used of the machine between two windows, in numbers that explain why it was slow."""

from __future__ import annotations

import gc
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.core.counts import (
    COMPILED_GRAPHS,
    CPU,
    DISK_FAULTS,
    FAULTS,
    FORCED_SWITCHES,
    GC_RUNS,
    GC_SECONDS,
    SPILLED_BYTES,
    SWITCHES,
    THROTTLED,
)
from hotlap.probe.spilling import Spilled


class Usage:
    """Counts since it was last asked. Garbage collection is timed from the moment this is made."""

    def __init__(self) -> None:
        self._gc = [0, 0.0]
        self._gc_begun = 0.0
        self._spilled = Spilled()
        gc.callbacks.append(self._on_gc)
        self._last = self._now()

    def since(self) -> dict[str, float]:
        now = self._now()
        used = {name: value - self._last.get(name, 0) for name, value in now.items()}
        self._last = now
        return {name: value for name, value in used.items() if value}

    def close(self) -> None:
        with suppress(ValueError):
            gc.callbacks.remove(self._on_gc)

    def _now(self) -> dict[str, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            CPU: time.process_time(),
            SWITCHES: used.ru_nvcsw,
            FORCED_SWITCHES: used.ru_nivcsw,
            FAULTS: used.ru_minflt,
            DISK_FAULTS: used.ru_majflt,
            THROTTLED: _throttled(),
            GC_RUNS: self._gc[0],
            GC_SECONDS: self._gc[1],
            COMPILED_GRAPHS: _graphs(),
            SPILLED_BYTES: self._spilled.total(),
        }

    def _on_gc(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_begun = time.perf_counter()
        else:
            self._gc[0] += 1
            self._gc[1] += time.perf_counter() - self._gc_begun


def _throttled() -> float:
    """Seconds for which a cgroup's quota has stopped this process's group."""
    for name, unit in (("cpu.stat", 1e-6), ("cpu/cpu.stat", 1e-9)):
        with suppress(OSError, ValueError, IndexError):
            for line in (Path("/sys/fs/cgroup") / name).read_text().splitlines():
                if line.startswith(("throttled_usec", "throttled_time")):
                    return int(line.split()[1]) * unit
    return 0.0


def _graphs() -> float:
    """Graphs that torch.compile has made so far; one that grows during training is compiled again and again."""
    utils = sys.modules.get("torch._dynamo.utils")
    return float(utils.counters["stats"]["unique_graphs"]) if utils else 0.0


def threads() -> dict[str, int]:
    """Threads that compute: what this process has, and how many torch and OpenCV would use."""
    counts = {}
    with suppress(OSError, StopIteration):
        status = Path("/proc/self/status").read_text().splitlines()
        counts["process"] = int(next(line for line in status if line.startswith("Threads:")).split()[1])
    if torch := sys.modules.get("torch"):
        counts["torch"] = torch.get_num_threads()
    if cv2 := sys.modules.get("cv2"):
        with suppress(Exception):
            counts["cv2"] = cv2.getNumThreads()
    return counts

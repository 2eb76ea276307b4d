"""What the GPU did in a window: which share of it any kernel ran, and for which stage.

torch's profiler lists kernels and the calls that launched them, by the host's clock. A call belongs to the stage that was open
when it was made; its kernel, which runs later, belongs to the same stage. Busy time is the union of all kernels and copies.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_right
from contextlib import suppress
from typing import Any

from hotlap.core.counts import UPDATES
from hotlap.core.sample import Sample
from hotlap.record.observed import GpuActivity


class GpuTrace:
    """Open from `begin` to `end`, around one window."""

    def __init__(self, profiler: Any, origin: int) -> None:
        self._profiler = profiler
        self._origin = origin
        self.activity: GpuActivity | None = None
        self.spans: list[tuple[str, int, int]] = []  # kernels: name, start, duration, on the sample's own clock

    @classmethod
    def begin(cls, origin: int) -> GpuTrace | None:
        """`origin`: when the run began, by `perf_counter_ns`."""
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return None
        with suppress(Exception):  # no CUPTI, or a profiler of the user's own is running
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
            profiler.__enter__()
            return cls(profiler, origin)
        return None

    def end(self, sample: Sample) -> dict[str, int]:
        """GPU time by stage, in nanoseconds."""
        sys.modules["torch"].cuda.synchronize()
        with suppress(Exception):
            self._profiler.__exit__(None, None, None)
            return self._by_stage(self._profiler.profiler.kineto_results.events(), sample)
        return {}

    def _by_stage(self, events: Any, sample: Sample) -> dict[str, int]:
        shift = time.perf_counter_ns() - time.time_ns() - self._origin  # the profiler's times are of the wall clock
        launches: dict[int, int] = {}
        kernels: list[Kernel] = []
        for event in events:
            start = event.start_ns()
            if "CUDA" in str(event.device_type()):
                if not sample.start <= start + shift <= sample.start + sample.wall:
                    continue
                kernels.append((start, event.duration_ns(), event.correlation_id(), event.name()))
            elif event.correlation_id():
                launches[event.correlation_id()] = start
        self.activity = activity(kernels, launches, sample)
        spans = sorted((start, start + length, path) for path, start, length in sample.events)
        begins = [span[0] for span in spans]
        charged: dict[str, int] = {}
        for start, length, launch, name in kernels:
            at = launches.get(launch, start) + shift
            place = bisect_right(begins, at) - 1
            path = spans[place][2] if place >= 0 and at <= spans[place][1] else ""
            if path:
                charged[path] = charged.get(path, 0) + length
            self.spans.append((name, start + shift, length))
        for path in list(charged):  # a stage includes what is inside it
            parent = path.rpartition("/")[0]
            while parent:
                charged[parent] = charged.get(parent, 0) + charged[path]
                parent = parent.rpartition("/")[0]
        return charged


Kernel = tuple[int, int, int, str]  # start, duration, number of the call that launched it, name


def activity(kernels: list[Kernel], launches: dict[int, int], sample: Sample) -> GpuActivity:
    """Idle time before a kernel is split at its launch: until then the GPU waited for the host. `launches`: times of calls."""
    busy = min(union([(start, start + length) for start, length, _, _ in kernels]), sample.wall)
    waited, reached = 0, 0  # for kernels that were launched already
    for start, length, call, _ in sorted(kernels):
        if reached:
            waited += max(0, start - max(reached, launches.get(call, start)))
        reached = max(reached, start + length)
    kernel_wait = min(waited, sample.wall - busy)
    copies = [length for _, length, _, name in kernels if name.startswith(("Memcpy", "Memset"))]
    return GpuActivity(
        seconds=sample.wall * 1e-9,
        busy=busy / sample.wall,
        host_wait=(sample.wall - busy - kernel_wait) / sample.wall,
        kernel_wait=kernel_wait / sample.wall,
        kernels=len(kernels) - len(copies),
        launches=len({call for _, _, call, _ in kernels}),
        copies=len(copies),
        copy_seconds=sum(copies) * 1e-9,
        updates=int(sample.counts.get(UPDATES, 0)),
    )


def union(intervals: list[tuple[int, int]]) -> int:
    """How much time a set of intervals covers."""
    covered, reached = 0, 0
    for begin, end in sorted(intervals):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered

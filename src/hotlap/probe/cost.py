"""What the probe itself costs."""

from __future__ import annotations

import time
from statistics import median

from hotlap.core import stages
from hotlap.core.caches import CacheSweep
from hotlap.probe.events import Events
from hotlap.probe.hooks.patching import as_region


def event_cost(rounds: int = 200) -> float:
    """Seconds that one event costs between work that sweeps the caches: to note it, and to settle it when its window ends."""
    events = Events()
    hooked = as_region(events, stages.LOG)(_nothing)
    events.start(lambda _: None)
    sweep = CacheSweep()
    costs = []
    for _ in range(rounds):
        sweep()
        begin = time.perf_counter()
        hooked()
        costs.append(time.perf_counter() - begin)
    began = time.thread_time()  # CPU time: this happens once, and on a busy machine another process may run meanwhile
    events.stop()
    return median(costs) + (time.thread_time() - began) / rounds


def _nothing() -> None:
    pass

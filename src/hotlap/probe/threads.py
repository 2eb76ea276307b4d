"""Threads beside the one that is measured: an actor's that steps environments while another learns, or more that learn.

The measured thread has events and stages (`events.py`). The others are only timed, in their outermost calls: in environments,
in networks, in learning, and waiting; and what they do is counted. A thread writes to its own tally alone, so nothing is
lost where two of them count at once.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from hotlap.core.counts import ENV_STEPS, EPISODE_STEPS, EPISODES
from hotlap.core.paths import ACT, LOSS


class Tally:
    """What one thread did since it was first seen: nanoseconds by stage, and counts."""

    __slots__ = ("_begun", "_now", "_open", "_steps", "_steps_alone", "_withheld", "counts", "learns", "name", "times")

    def __init__(self, now: Callable[[], int]) -> None:
        self.name = threading.current_thread().name
        self.times: defaultdict[str, int] = defaultdict(int)
        self.counts: defaultdict[str, float] = defaultdict(float)
        self.learns = False
        self._now = now
        self._open = False
        self._steps_alone = False
        self._withheld: defaultdict[str, float] = defaultdict(float)
        self._steps: defaultdict[int, int] = defaultdict(int)  # environment -> calls of its step
        self._begun: dict[tuple[int, int], int] = {}  # an environment, and which one in it -> call at which its episode began

    def enter(self) -> int:
        """When something begins; 0 inside of something else."""
        if self._open:
            return 0
        self._open = True
        return self._now()

    def leave(self, path: str, begin: int) -> None:
        self.times[path] += self._now() - begin
        self._open = False

    def abandon(self) -> None:
        """What was open will not end."""
        self._open = False

    def stepped(self, env: int, number: int, ended: Iterable[int], inside: bool = False) -> None:
        """`inside` is whether the measured thread is in a step itself.

        A thread that only steps then is one of a pool that makes one environment of many: its steps are part of that step, and
        counted there. Once it has stepped at another time, all of its steps count.
        """
        counts = self._withheld if inside and not self._steps_alone else self.counts
        if not inside and not self._steps_alone:
            self._steps_alone = True
            for what, withheld in self._withheld.items():
                self.counts[what] += withheld
        counts[ENV_STEPS] += number
        self._steps[env] += 1
        for which in ended:
            counts[EPISODES] += 1
            counts[EPISODE_STEPS] += self._steps[env] - self._begun.get((env, which), 0)
            self._begun[env, which] = self._steps[env]

    def forward_path(self, gradients: bool) -> str:
        """A thread that never learns acts, whatever it asks torch for."""
        return LOSS if gradients and self.learns else ACT


class OtherThreads:
    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._tallies: dict[int, Tally] = {}
        self._times: dict[tuple[int, str], int] = {}  # as they were when they were last taken
        self._counts: dict[tuple[int, str], float] = {}

    def tally(self) -> Tally:
        """Of the calling thread."""
        ident = threading.get_ident()
        tally = self._tallies.get(ident)
        if tally is None:
            tally = self._tallies[ident] = Tally(self._now)
        return tally

    def take(self) -> tuple[dict[str, dict[str, int]], dict[str, float]]:
        """Since the last time: by the names of threads, nanoseconds by stage; and what all of them counted."""
        times: dict[str, dict[str, int]] = {}
        counts: defaultdict[str, float] = defaultdict(float)
        for ident, tally in list(self._tallies.items()):
            of_thread: dict[str, int] = {}
            for path, total in list(tally.times.items()):
                of_thread[path] = total - self._times.get((ident, path), 0)
                self._times[ident, path] = total
            for what, number in list(tally.counts.items()):
                counts[what] += number - self._counts.get((ident, what), 0)
                self._counts[ident, what] = number
            for path, amount in of_thread.items():
                if amount:
                    sums = times.setdefault(tally.name, {})
                    sums[path] = sums.get(path, 0) + amount
        return times, {what: number for what, number in counts.items() if number}

"""Times several forms of the same work against each other, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hotlap.record.what_if import Cost

SHORT = 2e-4  # seconds: shorter calls are timed several at once
MOST_AT_ONCE = 20
MOST_ROUNDS = 30
FEWEST_ROUNDS = 3


class TooLong(Exception):
    """There is no time left to measure this."""

    def __init__(self) -> None:
        super().__init__("there is no time left to measure it")


class TimeUp(BaseException):
    """Measuring takes longer than it may, in the middle of something: raised by a signal's handler."""


@dataclass(frozen=True)
class Form:
    """One form of some work."""

    name: str
    size: float
    run: Callable[[], Any]


class Stopwatch:
    """All that is measured shares one time limit; a curve may take a part of it, or several.

    A repeat takes its wall time or its CPU time, whichever is less: on a busy machine the wall time holds other programs' work,
    and with several threads the CPU time holds that of them all.
    """

    def __init__(
        self,
        seconds: float,
        part: float,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._cpu_clock = clock, cpu_clock
        self._began = clock()
        self._until = self._began + seconds
        self._of_a_curve = part * seconds

    @property
    def left(self) -> float:
        return self._until - self._clock()

    @property
    def spent(self) -> float:
        return self._clock() - self._began

    def need(self, seconds: float) -> None:
        """Refuse work of which one call takes so long that there is no time to repeat it."""
        if FEWEST_ROUNDS * seconds > self.left:
            raise TooLong

    def costs(self, forms: Sequence[Form], parts: int = 1, waits: bool = False) -> tuple[Cost, ...]:
        """What the forms cost, measured in turn. Those too slow to be repeated are left out, and all behind them.

        Where they wait (for a GPU, for another thread), only the wall time counts.
        """
        until = min(self._until, self._clock() + parts * self._of_a_curve)
        chosen: list[tuple[Form, int]] = []
        first = 0.0
        for form in forms:
            if self._clock() + FEWEST_ROUNDS * first >= until:  # the next one may take as long, or longer
                break
            first = self._repeat(form, 1, waits=True)
            if first * FEWEST_ROUNDS > until - self._clock():
                break
            first = self._repeat(form, 1, waits=True)  # warm
            chosen.append((form, max(1, min(MOST_AT_ONCE, int(SHORT / max(first, 1e-9))))))
        if len(chosen) < 2:
            raise TooLong
        repeats: list[list[float]] = [[] for _ in chosen]
        for number_of_round in range(MOST_ROUNDS):
            if self._clock() >= (until if number_of_round >= FEWEST_ROUNDS else self._until):
                break
            for (form, number), kept in zip(chosen, repeats):
                form.run()  # the form before it may have swept the caches
                kept.append(self._repeat(form, number, waits))
        if len(repeats[-1]) < FEWEST_ROUNDS:
            raise TooLong
        return tuple(_cost(form, sorted(kept)) for (form, _), kept in zip(chosen, repeats))

    def _repeat(self, form: Form, number: int, waits: bool) -> float:
        cpu, begin = self._cpu_clock(), self._clock()
        for _ in range(number):
            form.run()
        wall = self._clock() - begin
        return (wall if waits else min(wall, self._cpu_clock() - cpu)) / number


def _cost(form: Form, times: list[float]) -> Cost:
    return Cost(form.name, form.size, times[len(times) // 4], times[0], times[len(times) // 2])

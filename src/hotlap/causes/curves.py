"""What the what-if curves of a run say about a change, as factors on the time of stages."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hotlap.causes.cause import Saved
from hotlap.record.profile import StageTime
from hotlap.record.what_if import Change, Cost, CostCurve, WhatIfCurves

COLDEST = 1.5  # times the cost measured here that a script's cold caches may add; more is a disturbance
COLD = 0.3  # times that cost that they add, about, where the script's own calls were disturbed
MOST_COLD = 1e-4  # seconds
SPREAD = 0.05  # of a factor: it may be off by this, however close the repeats were
COLD_CALL = 17e-6  # seconds that Python which runs once takes longer than in a loop, about
WARMEST = 0.4  # of its time that it takes at least
REST = 0.12  # of what is left that may go away too, once nothing sweeps the caches between


@dataclass(frozen=True)
class Factor:
    """By which something's time changes: an estimate, and how far it may be off."""

    value: float
    low: float
    high: float

    def over(self, times: float) -> "Factor":
        """Per unit of work, if each call does so many times as much."""
        return Factor(self.value / times, self.low / times, self.high / times)

    def softened(self) -> "Factor":
        """Of work whose size changes too, but which is mostly calls: between this factor and none."""
        return Factor(math.sqrt(max(self.value, 0.0)), min(1.0, self.low), max(1.0, self.high))

    def mixed(self, part: float, rest: "Factor") -> "Factor":
        """Of a stage of which only a part changes by this factor."""
        values = zip((self.value, self.low, self.high), (rest.value, rest.low, rest.high), strict=True)
        return Factor(*(part * own + (1 - part) * other for own, other in values))


SAME = Factor(1.0, 1.0, 1.0)
GONE = Factor(0.0, 0.0, 0.1)


@dataclass(frozen=True)
class Part:
    """A share of the time with its interval, and the factor by which it changes."""

    share: float
    low: float
    high: float
    factor: Factor

    @classmethod
    def of(cls, stage: StageTime, factor: Factor) -> "Part":
        """A stage without those inside it."""
        return cls(stage.share, *stage.ci95, factor)


def saved(parts: Iterable[Part]) -> Saved:
    """What goes away of all parts. Their shares are off by chance, each by itself; their factors all in the same way."""
    every = list(parts)
    value = sum(part.share * (1 - part.factor.value) for part in every)
    less = math.hypot(*((part.share - part.low) * (1 - part.factor.value) for part in every))
    more = math.hypot(*((part.high - part.share) * (1 - part.factor.value) for part in every))
    less += sum(part.share * (part.factor.high - part.factor.value) for part in every)
    more += sum(part.share * (part.factor.value - part.factor.low) for part in every)
    return Saved(value, min(value - less, 0.98 * value), value + more + REST * max(0.0, 1 - value - more))


class Curves:
    """The curves that were measured; every question is answered by None where there is none."""

    def __init__(self, measured: WhatIfCurves | None) -> None:
        self._measured = measured or WhatIfCurves()
        self._by_change = {curve.change: curve for curve in self._measured.curves}

    def of(self, change: Change) -> CostCurve | None:
        return self._by_change.get(change)

    def part(self, change: Change) -> float:
        """How much of its stage's time the measured work takes."""
        curve = self.of(change)
        return curve.part if curve else 1.0

    def form(self, change: Change, *forms: str) -> Factor | None:
        """The cheapest of these forms, or of all, against that which the script has."""
        curve = self.of(change)
        found = [cost for cost in curve.costs[1:] if not forms or cost.form in forms] if curve else []
        return _factor(curve, min(found, key=lambda cost: cost.seconds)) if curve and found else None

    def times(self, change: Change, times: float) -> Factor | None:
        """At so many times the size that the script has; between two sizes that were measured by interpolation."""
        curve = self.of(change)
        if curve is None:
            return None
        size = times * curve.costs[0].size
        costs = sorted(curve.costs, key=lambda cost: cost.size)
        above = next((cost for cost in costs if cost.size >= size), None)
        below = next((cost for cost in reversed(costs) if cost.size <= size), None)
        if above is None and below is not None and len(costs) > 1 and size <= 2 * below.size:  # there was no time for it
            return _factor(curve, _beyond(costs[-2], costs[-1], size))
        if above is None or below is None:
            return None
        return _factor(curve, _between(below, above, size))

    def smallest(self, change: Change) -> tuple[float, Factor] | None:
        """The smallest size that was measured, and its factor."""
        curve = self.of(change)
        if curve is None:
            return None
        cost = min(curve.costs, key=lambda cost: cost.size)
        return cost.size, _factor(curve, cost)

    def step(self, vector: Factor) -> Factor:
        """Of a step, if what vectors do themselves changes by this factor, and the environments inside run one after another.

        The first of them finds the caches as the network left them, the others find them warm.
        """
        own = sum(layer.seconds for layer in self._measured.layers if layer.is_vector)
        inner = sum(layer.seconds for layer in self._measured.layers if not layer.is_vector)
        if not own + inner:
            return SAME
        warm = max(1 - COLD_CALL / inner, WARMEST) if inner and own else 1.0
        return vector.mixed(own / (own + inner), Factor(warm, max(0.8 * warm, WARMEST), 1.0))


def _between(below: Cost, above: Cost, size: float) -> Cost:
    if above.size <= below.size or below.size <= 0:
        return below
    part = math.log(size / below.size) / math.log(above.size / below.size)

    def mean(a: float, b: float) -> float:
        return math.exp((1 - part) * math.log(a) + part * math.log(b))

    ends = zip((below.seconds, below.fastest, below.median), (above.seconds, above.fastest, above.median), strict=True)
    return Cost(f"{size:g}", size, *(mean(a, b) for a, b in ends))


def _beyond(below: Cost, last: Cost, size: float) -> Cost:
    """A little further in a straight line."""
    steps = (size - last.size) / (last.size - below.size) if last.size > below.size else 0.0
    ends = zip((below.seconds, below.fastest, below.median), (last.seconds, last.fastest, last.median), strict=True)
    return Cost(f"{size:g}", size, *(b + max(0.0, b - a) * steps for a, b in ends))


def _factor(curve: CostCurve, cost: Cost) -> Factor:
    """Of more rows, cold caches add the same to both: what the script's own calls took longer than the first cost."""
    first, cold = curve.costs[0], 0.0
    if curve.change in (Change.ACTING_ROWS, Change.LEARNING_ROWS):
        cold = max((curve.seen or 0.0) - first.seconds, 0.0)
        cold = min(COLD * first.seconds, MOST_COLD) if cold > COLDEST * first.seconds else cold
    pairs = ((cost.seconds, first.seconds), (cost.fastest, first.fastest), (cost.median, first.median))
    ratios = [(a + cold) / (b + cold) for a, b in pairs]
    return Factor(ratios[0], (1 - SPREAD) * min(ratios), (1 + SPREAD) * max(ratios))

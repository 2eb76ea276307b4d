"""When warm-up ends: the change point of a series of times. Standard library only: the probe asks while a script trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from statistics import median
from typing import Any


def change_point(values: Any) -> int | None:
    """The index at which the level of a series changes most; None if one level explains it as well.

    Two levels are fitted at every split, by least squares. Values further than five spreads from the median are pulled in
    first, and the last value alone is no level, so that one outlier is none; the first alone may be one (a cold start).
    The best split must beat a single level by the Bayesian information criterion with twice its price for two more
    parameters (a level and a position), because all positions were tried.
    """
    x = _floats(values)
    n = len(x)
    middle = median(x)
    spread = median([abs(value - middle) for value in x]) * 1.4826 or _standard_deviation(x)
    if n < 4 or spread <= 1e-12 * max(map(abs, x)):  # one value, to the last digit
        return None
    scaled = [min(max((value - middle) / spread, -5.0), 5.0) for value in x]
    sums = list(accumulate(scaled))
    squares = list(accumulate([value * value for value in scaled]))
    all_sums, all_squares = sums[-1], squares[-1]
    errors = [
        square - total * total / split + ((all_squares - square) - (all_sums - total) * (all_sums - total) / (n - split))
        for split, total, square in zip(range(1, n - 1), sums, squares)
    ]
    two_levels = min(errors)
    split = errors.index(two_levels) + 1
    one_level = all_squares - all_sums * all_sums / n
    two_levels = max(two_levels, 1e-9 * one_level)
    return split if n * math.log(one_level / two_levels) > 4 * math.log(n) else None


def warmup_end(values: Any) -> int:
    """How many values at the start are warm-up: those before the last change point in the first half of the series.

    A change in the second half is drift, not warm-up, and is left in.
    """
    x = _floats(values)
    end, stop = 0, len(x)
    while (step := change_point(x[end:stop])) is not None:
        if end + step <= len(x) // 2:
            end += step
        else:
            stop = end + step
    return end


def _floats(values: Any) -> list[float]:
    """A list or an array of numbers as floats."""
    try:
        x = [float(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    except TypeError:
        x = []
    if not x:
        raise ValueError("statistics need a plain, non-empty list of numbers")
    if not all(map(math.isfinite, x)):
        raise ValueError("statistics need finite numbers")
    return x


def _standard_deviation(x: list[float]) -> float:
    mean = _pairwise_sum(x) / len(x)
    return math.sqrt(_pairwise_sum([(value - mean) * (value - mean) for value in x]) / len(x))


def _pairwise_sum(x: Sequence[float]) -> float:
    """The sum in the order in which NumPy adds, so that ties between splits break as they do there."""
    n = len(x)
    if n < 8:
        return _sum_in_order(x)
    if n > 128:
        half = n // 2 - (n // 2) % 8
        return _pairwise_sum(x[:half]) + _pairwise_sum(x[half:])
    even = n - n % 8
    a, b, c, d, e, f, g, h = (_sum_in_order(x[i:even:8]) for i in range(8))
    return _sum_in_order(x[even:], ((a + b) + (c + d)) + ((e + f) + (g + h)))


def _sum_in_order(x: Sequence[float], start: float | None = None) -> float:
    """Plain additions: from Python 3.12 on, `sum` compensates for rounding."""
    total = x[0] if start is None else start
    for value in x[1:] if start is None else x:
        total += value
    return total

"""Statistics of measured times: pure functions on plain arrays.

Intervals are bootstrap percentile intervals: times are skewed, so nothing here assumes a normal distribution. Every random
choice is seeded, so a report rebuilt from a record shows the same digits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from hotlap.core.warmup import change_point as change_point
from hotlap.core.warmup import warmup_end as warmup_end

Floats = NDArray[np.float64]
RESAMPLES = 2_000
PROCESS_NOISE = 0.02  # usual standard deviation of the logarithm of a cost between processes that do the same
PRIOR = 4  # processes that this number is worth
MANY = 2_000  # values above which intervals are computed without resampling each of them


@dataclass(frozen=True)
class Summary:
    count: int
    mean: float
    median: float
    std: float  # sample standard deviation; 0 for one value
    mad: float  # median absolute deviation from the median: spread that outliers do not move
    low: float
    high: float


def summarize(values: ArrayLike) -> Summary:
    """Location and spread of the values."""
    x = _floats(values)
    median = float(np.median(x))
    return Summary(
        count=len(x),
        mean=float(x.mean()),
        median=median,
        std=float(x.std(ddof=1)) if len(x) > 1 else 0.0,
        mad=float(np.median(np.abs(x - median))),
        low=float(x.min()),
        high=float(x.max()),
    )


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[..., Floats] = np.mean,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Interval of `statistic(x, axis=...)` by resampling. One value gives an interval of no width: see its count."""
    x = _floats(values)
    if len(x) > MANY and statistic is np.median:
        return _median_interval(x, level)
    x = _blocks(x) if statistic is np.mean else x
    index = _resample(len(x), resamples, seed)
    return _percentiles(np.asarray(statistic(x[index], axis=1)), level)


def ratio_interval(
    parts: ArrayLike, wholes: ArrayLike, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Interval of sum(parts) / sum(wholes) when the pairs (an iteration's stage and wall time) are resampled together."""
    x, y = _floats(parts), _floats(wholes)
    if len(x) != len(y):
        raise ValueError(f"parts and wholes must be pairs, not {len(x)} and {len(y)} values")
    x, y = _blocks(x), _blocks(y)
    index = _resample(len(x), resamples, seed)
    return _percentiles(x[index].sum(axis=1) / y[index].sum(axis=1), level)


def ratio_intervals(
    parts: Sequence[ArrayLike], wholes: ArrayLike, level: float = 0.95, seed: int = 0
) -> list[tuple[float, float]]:
    """`ratio_interval` of many parts of the same wholes: they are resampled together, which costs little more than one."""
    y = _blocks(_floats(wholes))
    x = np.stack([_blocks(_floats(part)) for part in parts], axis=1)
    index = _resample(len(y), RESAMPLES, seed)
    weights = np.stack([np.bincount(chosen, minlength=len(y)) for chosen in index]).astype(np.float64)
    tail = 50 * (1 - level)
    low, high = np.percentile((weights @ x) / (weights @ y)[:, None], [tail, 100 - tail], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def paired_ratio(
    a: ArrayLike, b: ArrayLike, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float, float]:
    """Median of a/b over pairs measured side by side, with its interval: (ratio, low, high)."""
    x, y = _floats(a), _floats(b)
    if len(x) != len(y):
        raise ValueError(f"a and b must be pairs, not {len(x)} and {len(y)} values")
    if min(x.min(), y.min()) <= 0:
        raise ValueError("ratios need positive values")
    logs = np.log(x) - np.log(y)
    low, high = bootstrap_interval(logs, np.median, level, resamples, seed)
    return float(np.exp(np.median(logs))), float(np.exp(low)), float(np.exp(high))


def _floats(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0:
        raise ValueError("statistics need a plain, non-empty list of numbers")
    if not np.isfinite(x).all():
        raise ValueError("statistics need finite numbers")
    return x


def _blocks(x: Floats) -> Floats:
    """Means of neighbours, if there are many values: resampling them needs little memory and respects autocorrelation."""
    size = -(-len(x) // MANY)
    if size == 1:
        return x
    return np.asarray(x[: len(x) // size * size].reshape(-1, size).mean(axis=1))


def _median_interval(x: Floats, level: float) -> tuple[float, float]:
    """Interval of the median from order statistics: how many of n values lie below it is binomial, nearly normal."""
    tail = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(len(x)) / 2
    low, high = int(np.floor(len(x) / 2 - tail)), int(np.ceil(len(x) / 2 + tail))
    ordered = np.sort(x)
    return float(ordered[low]), float(ordered[high])


def _resample(n: int, resamples: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, n, (resamples, n))


def _percentiles(values: Floats, level: float) -> tuple[float, float]:
    tail = 50 * (1 - level)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


# -- comparisons --


@dataclass(frozen=True)
class Effect:
    """How much two series differ, on the scale of what was given (differences of logarithms, mostly)."""

    value: float
    low: float
    high: float
    smallest: float  # an effect of this size would have been found four times out of five
    rounds: int
    pairs: int

    @property
    def width(self) -> float:
        return (self.high - self.low) / 2


def rounds_effect(rounds: Sequence[ArrayLike], level: float = 0.95) -> Effect:
    """The mean over rounds of each round's median difference, with Student's interval over rounds.

    A round is a set of fresh processes whose blocks were interleaved; `rounds` holds the differences of its pairs. Blocks of
    one process share its luck (memory layout, a neighbour on the machine), so only rounds are independent. With the few rounds
    that a comparison can afford, percentiles of a bootstrap cannot reach 95%; Student's t does, because medians of many pairs
    are nearly normal. Rounds that agree by chance more than their own pairs allow do not narrow the interval. One or two rounds
    do not say how much rounds differ; then `PROCESS_NOISE` stands in for it.
    """
    pairs = [_floats(differences) for differences in rounds]
    medians = np.array([np.median(x) for x in pairs])
    count, total = len(medians), sum(map(len, pairs))
    value = float(medians.mean())
    freedom, spread = count - 1, float(((medians - value) ** 2).sum())
    if count < 3:
        freedom, spread = freedom + PRIOR, spread + PRIOR * 2 * PROCESS_NOISE**2
    between = spread / freedom / count
    within = sum((1.4826 * np.median(np.abs(x - np.median(x)))) ** 2 * (np.pi / 2) / len(x) for x in pairs) / count**2
    error = float(np.sqrt(max(between, within)))
    critical = float(stdtrit(freedom, (1 + level) / 2))
    smallest = (critical + float(stdtrit(freedom, 0.8))) * error
    return Effect(value, value - critical * error, value + critical * error, smallest, count, total)


def _block_medians(x: Floats, resamples: int, seed: int) -> Floats:
    size = max(1, round(len(x) ** (1 / 3)))
    count = -(-len(x) // size)
    starts = np.random.default_rng(seed).integers(0, len(x) - size + 1, (resamples, count))
    index = (starts[:, :, None] + np.arange(size)).reshape(resamples, -1)[:, : len(x)]
    return np.asarray(np.median(x[index], axis=1))


def power_law(work: ArrayLike, cost: ArrayLike) -> tuple[float, tuple[float, float]]:
    """The exponent p of cost ~ work^p by least squares on logarithms, with its 95% interval."""
    x, y = np.log(_floats(work)), np.log(_floats(cost))
    if len(x) < 3 or np.ptp(x) == 0:
        raise ValueError("a power law needs three amounts of work that differ")
    slope, intercept = np.polyfit(x, y, 1)
    residual = y - (slope * x + intercept)
    error = float(np.sqrt(residual @ residual / (len(x) - 2) / ((x - x.mean()) ** 2).sum()))
    critical = float(stdtrit(len(x) - 2, 0.975))
    return float(slope), (float(slope - critical * error), float(slope + critical * error))


def amdahl(share: float, times: float) -> float:
    """How many times faster the whole gets when a part with this share gets that many times faster."""
    left = 1 - share + share / times
    return 1 / left if left > 0 else float("inf")


def series_error(values: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Standard error of the median of a series whose neighbours depend on each other; 0 for one value."""
    x = _floats(values)
    return float(_block_medians(x, resamples, seed).std()) if len(x) > 1 else 0.0


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Rank correlation; of equal values each gets the mean of their ranks."""
    return float(np.corrcoef(_ranks(_floats(a)), _ranks(_floats(b)))[0, 1])


def _ranks(x: Floats) -> Floats:
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])

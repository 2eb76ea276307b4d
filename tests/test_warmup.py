"""The end of warm-up in pure Python makes the decisions that NumPy would make, to the last split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.core import stats, warmup


def numpy_change_point(values):
    x = np.asarray(values, dtype=np.float64)
    n = len(x)
    spread = stats.summarize(x).mad * 1.4826 or float(x.std())
    if n < 4 or spread <= 1e-12 * float(np.abs(x).max()):
        return None
    x = np.clip((x - np.median(x)) / spread, -5, 5)
    sums, squares = np.cumsum(x), np.cumsum(x**2)
    split = np.arange(1, n - 1)
    left = squares[split - 1] - sums[split - 1] ** 2 / split
    right = squares[-1] - squares[split - 1] - (sums[-1] - sums[split - 1]) ** 2 / (n - split)
    best = int(np.argmin(left + right))
    one_level = squares[-1] - sums[-1] ** 2 / n
    two_levels = max(float((left + right)[best]), 1e-9 * one_level)
    return int(split[best]) if n * np.log(one_level / two_levels) > 4 * np.log(n) else None


def numpy_warmup_end(values):
    x = np.asarray(values, dtype=np.float64)
    end, stop = 0, len(x)
    while (step := numpy_change_point(x[end:stop])) is not None:
        if end + step <= len(x) // 2:
            end += step
        else:
            stop = end + step
    return end


levels = st.tuples(st.integers(1, 150), st.integers(1, 1_000_000), st.integers(0, 1_000))


@st.composite
def series(draw):
    """Times at one, two or three levels, with noise; and others, with many equal values."""
    if draw(st.booleans()):
        return draw(st.lists(st.integers(0, 4), min_size=1, max_size=200))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = [
        level + random.integers(0, noise + 1, count) for count, level, noise in draw(st.lists(levels, min_size=1, max_size=3))
    ]
    return np.concatenate(parts).tolist()


@settings(max_examples=600)
@given(series())
def test_the_same_decisions_as_numpy(values):
    assert warmup.change_point(values) == numpy_change_point(values)
    assert warmup.warmup_end(values) == numpy_warmup_end(values)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=2_000))
@settings(max_examples=100)
def test_sums_are_added_in_numpys_order(values):
    assert warmup._pairwise_sum(values) == float(np.asarray(values).sum())


def test_arrays_and_bad_input():
    assert warmup.warmup_end(np.array([9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])) == 4
    assert stats.change_point is warmup.change_point and stats.warmup_end is warmup.warmup_end
    for bad in ([], [1.0, float("nan")], 3, [[1, 2], [3, 4]]):
        with pytest.raises(ValueError, match="statistics need"):
            warmup.change_point(bad)

"""Statistics against scipy, numpy and known answers."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from hotlap.core import stats

values = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=50)


@given(values)
def test_summary_equals_scipy(x):
    summary = stats.summarize(x)
    assert summary.count == len(x)
    assert summary.mean == pytest.approx(np.mean(x))
    assert summary.median == np.median(x)
    assert summary.mad == pytest.approx(scipy.stats.median_abs_deviation(x))
    if len(x) > 1:
        assert summary.std == pytest.approx(scipy.stats.tstd(x), abs=1e-9 * max(x))


@pytest.mark.parametrize("statistic", [np.mean, np.median])
def test_bootstrap_interval_equals_scipys(statistic):
    x = np.random.default_rng(1).lognormal(size=60)
    ours = stats.bootstrap_interval(x, statistic, resamples=20_000)
    theirs = scipy.stats.bootstrap((x,), statistic, n_resamples=20_000, method="percentile", random_state=2).confidence_interval
    width = theirs.high - theirs.low
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * width)


def test_bootstrap_interval_covers_at_its_level():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        low, high = stats.bootstrap_interval(rng.exponential(size=40), resamples=400)
        covered += low <= 1.0 <= high
    assert 0.88 <= covered / 400 <= 0.98


def test_ratio_interval_brackets_the_ratio_and_uses_pairs():
    rng = np.random.default_rng(0)
    walls = rng.uniform(1, 10, 50)
    low, high = stats.ratio_interval(0.3 * walls, walls)  # the share is exact in every pair
    assert low == pytest.approx(0.3)
    assert high == pytest.approx(0.3)
    low, high = stats.ratio_interval(walls * rng.uniform(0.2, 0.4, 50), walls)
    assert low < 0.3 < high
    assert high - low < 0.06


def test_paired_ratio():
    a = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    assert stats.paired_ratio(a, a / 2) == pytest.approx((2.0, 2.0, 2.0))
    ratio, low, high = stats.paired_ratio([1.1, 1.0, 0.9, 1.2, 1.0], [1.0] * 5)
    assert low <= ratio == 1.0 <= high


@pytest.mark.parametrize("statistic", [np.mean, np.median])
def test_intervals_of_long_runs_are_as_wide_as_they_should_be(statistic):
    rng = np.random.default_rng(4)
    x = rng.lognormal(0, 0.3, 30_000)
    low, high = stats.bootstrap_interval(x, statistic)
    theirs = scipy.stats.bootstrap((x,), statistic, n_resamples=500, batch=50, method="percentile", random_state=1)
    expected = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert low < statistic(x) < high
    assert high - low == pytest.approx(expected, rel=0.15)
    walls = rng.uniform(1, 2, 30_000)
    low, high = stats.ratio_interval(walls * rng.uniform(0.2, 0.4, 30_000), walls)
    assert low < 0.3 < high
    assert high - low < 0.005


def test_the_same_samples_give_the_same_digits():
    x = np.random.default_rng(3).random(30)
    assert stats.bootstrap_interval(x) == stats.bootstrap_interval(x)


@pytest.mark.parametrize(("prefix", "factor"), [(1, 5.0), (2, 3.0), (3, 2.0), (8, 1.5), (3, 0.3)])
def test_warmup_is_found(prefix, factor):
    ends = []
    for seed in range(40):
        x = np.random.default_rng(seed).normal(10, 0.3, 30)
        x[:prefix] *= factor
        ends.append(stats.warmup_end(x))
    assert np.median(ends) == prefix
    assert np.mean(np.abs(np.array(ends) - prefix) <= 1) >= 0.9


def test_steady_series_have_no_warmup():
    calls = [stats.warmup_end(np.random.default_rng(seed).lognormal(0, 0.2, 30)) > 0 for seed in range(300)]
    assert np.mean(calls) <= 0.05


def test_late_change_is_drift_not_warmup():
    x = np.r_[np.full(20, 1.0), np.full(10, 2.0)] + np.random.default_rng(0).normal(0, 0.01, 30)
    assert stats.change_point(x) == 20
    assert stats.warmup_end(x) == 0


def test_two_steps_of_warmup():
    x = np.r_[np.full(4, 9.0), np.full(4, 3.0), np.full(30, 1.0)] + np.random.default_rng(0).normal(0, 0.02, 38)
    assert stats.warmup_end(x) == 8


def test_one_outlier_is_no_change_point():
    x = np.random.default_rng(0).normal(10, 0.1, 40)
    x[17] = 500
    assert stats.change_point(x) is None
    x[17], x[-1] = 10, 500
    assert stats.change_point(x) is None
    assert stats.change_point([5.0] * 20) is None
    assert stats.change_point([1.0, 9.0]) is None


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]], [1.0, float("nan")], [float("inf")]])
def test_bad_input(bad):
    with pytest.raises(ValueError, match="statistics need"):
        stats.summarize(bad)


def test_pairs_must_be_pairs():
    with pytest.raises(ValueError, match="pairs"):
        stats.ratio_interval([1, 2], [1])
    with pytest.raises(ValueError, match="pairs"):
        stats.paired_ratio([1, 2], [1])
    with pytest.raises(ValueError, match="positive"):
        stats.paired_ratio([1, 0], [1, 1])


# -- comparisons --


def test_the_interval_is_students_over_rounds():
    rng = np.random.default_rng(0)
    rounds = [rng.normal(center, 1e-4, 9) for center in rng.normal(0.1, 0.05, 7)]
    effect = stats.rounds_effect(rounds)
    medians = [np.median(r) for r in rounds]
    expected = scipy.stats.ttest_1samp(medians, 0).confidence_interval(0.95)
    assert effect.value == pytest.approx(np.mean(medians))
    assert (effect.low, effect.high) == pytest.approx((expected.low, expected.high))
    assert (effect.rounds, effect.pairs) == (7, 63)


def test_rounds_that_agree_by_chance_do_not_narrow_the_interval():
    noisy = [-0.1, -0.05, 0.0, 0.05, 0.1]
    assert stats.rounds_effect([noisy] * 4).width > 0.02
    assert stats.rounds_effect([noisy]).width > 0.07  # one process each: they may differ for no reason
    assert stats.rounds_effect([[np.log(13)] * 4]).low > np.log(10)  # but not by so much


@pytest.mark.parametrize("kind", ["normal", "skewed", "bimodal", "drifting"])
def test_coverage(kind):
    rng = np.random.default_rng(1)
    hits, trials = 0, 400
    for _ in range(trials):
        rounds = []
        for _ in range(6):
            noise = rng.normal(0, 0.03, 6)
            if kind == "skewed":
                noise = rng.exponential(0.03, 6) - rng.exponential(0.03, 6)
            elif kind == "bimodal":
                noise = noise / 3 + 0.06 * (rng.random(6) < 0.3) - 0.06 * (rng.random(6) < 0.3)
            elif kind == "drifting":
                noise += np.linspace(-0.03, 0.03, 6) * rng.choice([-1, 1])
            rounds.append(0.2 + rng.normal(0, 0.02) + noise)
        effect = stats.rounds_effect(rounds)
        hits += effect.low <= 0.2 <= effect.high
    assert hits / trials >= 0.92


def test_series_of_dependent_values():
    rng = np.random.default_rng(0)
    walk = np.repeat(rng.normal(0, 1, 40), 5)  # neighbours that are equal: fewer values than it seems
    assert stats.series_error(walk) > 1.3 * stats.series_error(rng.permutation(walk))
    assert stats.series_error([1.0]) == 0


def test_power_law_against_scipy():
    rng = np.random.default_rng(0)
    work = np.geomspace(1, 1000, 12)
    cost = work**1.4 * np.exp(rng.normal(0, 0.1, 12))
    slope, (low, high) = stats.power_law(work, cost)
    expected = scipy.stats.linregress(np.log(work), np.log(cost))
    assert slope == pytest.approx(expected.slope)
    assert high - slope == pytest.approx(expected.stderr * scipy.stats.t.ppf(0.975, 10))
    assert low < 1.4 < high
    with pytest.raises(ValueError, match="three amounts"):
        stats.power_law([1, 1, 1], [1, 2, 3])


def test_amdahl():
    assert stats.amdahl(0.5, 2) == pytest.approx(4 / 3)
    assert stats.amdahl(0.0, 100) == 1
    assert stats.amdahl(0.8, float("inf")) == pytest.approx(5)
    assert stats.amdahl(1.0, float("inf")) == float("inf")


def test_intervals_of_many_parts_are_those_of_each():
    rng = np.random.default_rng(0)
    for count in (1, 7, 300, 5_000):
        wholes = rng.uniform(1, 2, count)
        parts = [wholes * share * rng.uniform(0.9, 1.1, count) for share in (0.0, 0.2, 0.5)]
        for part, interval in zip(parts, stats.ratio_intervals(parts, wholes), strict=True):
            assert interval == pytest.approx(stats.ratio_interval(part, wholes), rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(-1, 1)), min_size=3, max_size=40))
def test_rank_correlation_equals_scipys(pairs):
    a, b = zip(*pairs, strict=True)
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert stats.spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-9)

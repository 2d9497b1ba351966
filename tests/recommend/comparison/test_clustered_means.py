"""Intervals cover, paired tests are SciPy's, and repeats of one user are no further users."""

import math

import numpy as np
import pytest
from scipy import stats

from sfumato.recommend.comparison.clustered_means import UserSums, difference, estimate, holm


def once(values):
    return UserSums(np.asarray(values, float), np.ones(len(values)))


def test_one_value_per_user_is_the_usual_t_test_of_scipy():
    rng = np.random.default_rng(0)
    one, other = rng.random(40), rng.random(40) ** 2
    mean = estimate(once(one), 0.9)
    low, high = stats.t.interval(0.9, 39, one.mean(), stats.sem(one))
    assert (mean.value, mean.low, mean.high) == pytest.approx((one.mean(), low, high))
    found, known = difference(once(one), once(other), 0.9), stats.ttest_rel(one, other)
    assert found.p == pytest.approx(known.pvalue)
    ends = known.confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_users_without_values_do_not_count():
    cells = UserSums(np.array([1.0, 0, 0.5]), np.array([1, 0, 1]))
    assert estimate(cells, 0.95).users == 2
    assert estimate(cells, 0.95).value == 0.75


def test_repeating_the_same_values_adds_no_confidence():
    values = once(np.random.default_rng(1).random(30))
    one, three = estimate(values, 0.95), estimate(values + values + values, 0.95)
    assert (three.value, three.low) == pytest.approx((one.value, one.low))


@pytest.mark.parametrize("metric", ["mean", "root", "repeats"])
def test_intervals_cover_the_truth(metric):
    # Users differ in their level and in their number of rows; rows of one user go together, so an
    # interval over rows covers less (0.79 to 0.89 here). Of 1000 intervals with coverage 0.95,
    # fewer than 916 or more than 980 have p < 1e-5; these of 80 skewed users cover about 0.94.
    rng = np.random.default_rng(7)
    covered = sum(covers(rng, metric) for _ in range(1000))
    assert 916 <= covered <= 980


def covers(rng, metric):
    users = 80
    counts = np.full(users, 3) if metric == "repeats" else rng.integers(1, 9, users)
    level = rng.beta(1, 3, users)  # mean 1/4
    of = np.repeat(np.arange(users), counts)
    if metric == "root":
        rows, truth = (0.5 + level[of]) ** 2 * rng.normal(size=of.size) ** 2, E_SQUARE**0.5
    else:
        rows, truth = level[of] * rng.choice([0.0, 2.0], of.size), 0.25
    cells = UserSums(np.bincount(of, rows), counts)
    found = estimate(cells, 0.95, root=metric == "root")
    return found.low <= truth <= found.high


E_SQUARE = 0.25 + 0.25 + 0.1  # E (1/2 + b)^2 of b from Beta(1, 3): E b = 1/4, E b^2 = 1/10


def test_the_paired_test_keeps_its_level_and_finds_what_unpaired_values_hide():
    # The same users under two equal models: of 1000 tests at 0.05 more than 85 have p < 1e-5.
    rng = np.random.default_rng(3)
    found, better = [], []
    for _ in range(1000):
        level = rng.beta(1, 3, 60)
        one, other = (level + rng.normal(0, 0.02, 60) for _ in range(2))
        found.append(difference(once(one), once(other), 0.95).p)
        better.append(difference(once(one + 0.02), once(other), 0.95).p)
    assert 20 <= np.sum(np.array(found) < 0.05) <= 85
    assert np.mean(np.array(better) < 0.05) > 0.99


def test_differences_of_roots_are_paired_too():
    # To first order the root's difference has the variance of the paired contributions: as found
    # by drawing users again. 2000 draws have a standard error of 1.6 %; 10 % have p < 1e-9.
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 9, 300)
    one = counts * rng.gamma(2, size=300)
    other = 0.8 * one + counts * rng.gamma(1, 0.3, size=300)
    found = difference(UserSums(one, counts), UserSums(other, counts), 0.95, root=True)
    again = rng.integers(0, 300, (2000, 300))
    total = counts[again].sum(axis=1)
    gaps = np.sqrt(one[again].sum(axis=1) / total) - np.sqrt(other[again].sum(axis=1) / total)
    half = stats.t.ppf(0.975, 299) * gaps.std()
    assert found.high - found.value == pytest.approx(half, rel=0.1)


def test_holm_is_the_textbook_procedure():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    found = holm([math.nan, 0.02])
    assert math.isnan(found[0])
    assert found[1] == 0.02
    assert holm([]) == []


def test_what_has_no_variance_is_still_answered():
    same = once([0.3] * 5)
    assert difference(same, same, 0.95).p == 1.0
    assert difference(same, once([0.1] * 5), 0.95).p == 0.0
    alone = estimate(once([0.4]), 0.95, most=1.0)
    assert alone.value == 0.4
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert math.isnan(difference(once([0.4]), once([0.2]), 0.95).p)
    assert math.isnan(estimate(UserSums(np.zeros(3), np.zeros(3)), 0.95).value)
    # Four users without a hit say little.
    none, every = (estimate(once([value] * 4), 0.95, most=1.0) for value in (0.0, 1.0))
    assert (none.low, none.high) == pytest.approx((0, 1 - 0.05**0.25))
    assert (every.low, every.high) == pytest.approx((0.05**0.25, 1))
    assert estimate(once([0.0, 0.01] * 9), 0.999999, most=1.0).low == 0.0

"""LpSketch estimates norms of order p within its bound, with removals, against exact norms."""

import math

import numpy as np
import pytest
from scipy.stats import cauchy, norm

from sfumato.sketch import LpSketch
from sfumato.sketch.frequency.lp_norm import absolute_cdf, absolute_quantile

RNG = np.random.default_rng(4)


def norm_of(weights, p):
    return float((np.abs(weights) ** p).sum() ** (1 / p))


@pytest.mark.parametrize("x", [0.01, 0.3, 1.0, 2.5, 40.0])
def test_the_distribution_of_entries_is_exact_where_it_has_a_closed_form(x):
    assert absolute_cdf(x, 1.0) == pytest.approx(2 * cauchy.cdf(x) - 1, abs=1e-9)
    assert absolute_cdf(x, 2.0) == pytest.approx(2 * norm.cdf(x / math.sqrt(2)) - 1, abs=1e-6)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.7, 0.99, 1.01, 1.5, 1.9])
def test_the_distribution_of_entries_is_that_of_their_recipe(p):
    # 200,000 draws: 6 deviations of a fraction are .0067; seeds fixed.
    angle = RNG.uniform(-math.pi / 2, math.pi / 2, 200_000)
    wait = RNG.exponential(size=angle.size)
    drawn = np.sin(p * angle) / np.cos(angle) ** (1 / p)
    drawn = np.abs(drawn * (np.cos((1 - p) * angle) / wait) ** ((1 - p) / p))
    for probability in (0.1, 0.5, 0.9):
        limit = absolute_quantile(probability, p)
        assert absolute_cdf(limit, p) == pytest.approx(probability, abs=1e-9)
        assert abs((drawn <= limit).mean() - probability) < 0.0067


@pytest.mark.parametrize("p", [0.25, 0.5, 1.0, 1.3, 2.0])
def test_norms_are_within_the_bound_after_removals(p):
    # A miss has p = .01 for each of 100 seeds: more than 8 have p < 1e-5; at half the bound some.
    weights = np.concatenate([RNG.normal(size=60), [200.0, -50.0]])
    true, misses, close = norm_of(weights, p), 0, 0
    for seed in range(100):
        sketch = LpSketch(p, 101, seed=seed).update(range(62), weights)
        sketch.update(range(40, 100), np.full(60, 3.0)).update(range(40, 100), np.full(60, -3.0))
        error = abs(sketch.estimate() / true - 1)
        misses += error > sketch.error_bound(0.99)
        close += error > sketch.error_bound(0.99) / 2
    assert misses <= 8
    assert close >= 3
    assert sketch.moment() == pytest.approx(sketch.estimate() ** p)


def test_the_median_has_no_bias_over_seeds():
    # The deviation of a median of 401 Cauchy sizes is .0785: 6 of them over 200 seeds are .034.
    found = [LpSketch(1.0, seed=seed).update(["a", "b"], [3, -4]).estimate() for seed in range(200)]
    assert np.median(found) == pytest.approx(7, rel=0.034)


def test_l1_counts_what_is_left_and_distance_what_differs():
    morning = LpSketch(rows=2001).update(RNG.integers(0, 50, 2000))
    assert abs(morning.estimate() / 2000 - 1) < morning.error_bound(0.9999)
    evening = LpSketch(rows=2001).update(range(50), np.full(50, 10.0))
    together = morning.copy().merge(evening)
    assert abs(together.estimate() / 2500 - 1) < together.error_bound(0.9999)
    assert abs(together.distance(morning) / 500 - 1) < together.error_bound(0.9999)
    with pytest.raises(ValueError, match="cannot compare, seed is"):
        morning.distance(LpSketch(rows=2001, seed=1))


def test_nothing_has_norm_zero():
    assert LpSketch().estimate() == 0
    gone = LpSketch().update(["a"], [5]).update(["a"], [-5])
    assert gone.estimate() == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 401])
def test_bounds_are_order_statistics(rows):
    # By simulation of the median itself: 20,000 draws, 6 deviations of .05 are .009.
    drawn = np.median(np.abs(RNG.standard_cauchy((20_000, rows))), axis=1)
    bound = LpSketch(rows=rows).error_bound(0.95)
    missed = (np.abs(drawn - 1) > bound).mean()
    assert missed <= 0.05 + 0.009
    assert missed > 0.001


def test_from_error_is_the_smallest_of_its_kind():
    sketch = LpSketch.from_error(0.1, 0.95, p=1.0, seed=3)
    assert (sketch.p, sketch.seed) == (1.0, 3)
    assert sketch.error_bound(0.95) <= 0.1 < LpSketch(rows=sketch.rows - 2).error_bound(0.95)
    with pytest.raises(ValueError, match="takes more than 65536 rows"):
        LpSketch.from_error(1e-4)


def test_a_release_is_refused_in_words():
    with pytest.raises(ValueError, match="one event may change a sum by any amount"):
        LpSketch().update(["a"]).release(1.0)


def test_weights_that_would_overflow_are_refused_and_change_nothing():
    sketch = LpSketch(0.11, 3).update(range(50), np.full(50, 1e98))
    before = sketch.copy()
    assert np.isfinite(sketch._cells).all()
    with pytest.raises(ValueError, match="must sum to at most"):
        sketch.update(["a"], [1e100])
    assert sketch == before
    with pytest.raises(ValueError, match="weights of both"):
        sketch.merge(LpSketch(0.11, 3).update(range(50), np.full(50, 1.9e98)))
    assert sketch == before

"""Draws follow the function they are drawn from, and matched points have the sums they match."""

import numpy as np
import pytest
from scipy.stats import kstest

from sfumato.density import SketchSampler
from sfumato.density.evaluation_grid import field_of
from sfumato.density.sampling import (
    _Envelope,
    _kernel,
    _on_simplex,
    _simplex_weights,
    by_population,
    by_rejection,
    matched,
    spread,
)
from sfumato.sketch.kernel_sums.fourier import KernelFourier

BOX = ((-2.0, 0.0), (2.0, 1.0))


def ramp(points):
    """Density 2 y on [0, 1], even in x, and negative values that must count as none."""
    return np.where(points[:, 0] > 0, points[:, 1], -points[:, 1])


@pytest.mark.parametrize("draw", [by_rejection, by_population])
def test_draws_have_the_distribution_of_the_positive_part(draw):
    # Independent draws pass 1.95 / sqrt(n) with p < 0.001; a population's are worth a third.
    drawn = draw(ramp, BOX, 4000, np.random.default_rng(1))
    limit = 1.95 / np.sqrt(4000 if draw is by_rejection else 1333)
    assert drawn[:, 0].min() > 0
    assert kstest(drawn[:, 0] / 2, "uniform").statistic < limit
    assert kstest(drawn[:, 1] ** 2, "uniform").statistic < limit


@pytest.mark.filterwarnings("error")
def test_values_that_are_nowhere_above_zero_are_drawn_evenly():
    # As those of a release may be in which noise dominates.
    drawn = by_population(lambda points: -(ramp(points) ** 2), BOX, 1000, np.random.default_rng(1))
    assert (np.abs(drawn.mean(axis=0) - [0, 0.5]) < [0.25, 0.07]).all()


def test_an_envelope_that_was_too_low_is_raised_and_all_is_drawn_anew(monkeypatch):
    # Drawn under the first envelope, nearly all points would be accepted: even, not a ramp.
    first = _Envelope.of

    def low(values, bounds, rng):
        envelope = first(values, bounds, rng)
        envelope.heights[:] = envelope.heights.mean() / 10
        return envelope

    monkeypatch.setattr(_Envelope, "of", low)
    drawn = by_rejection(ramp, BOX, 4000, np.random.default_rng(1))
    assert drawn[:, 0].min() > 0
    assert kstest(drawn[:, 1] ** 2, "uniform").statistic < 1.95 / np.sqrt(4000)


def test_a_population_finds_two_far_modes_in_many_dimensions_by_their_weights():
    # 1024 particles, 3 : 1. Resampling at some ten powers strays by 0.05 with p of about 0.002.
    centres = np.array([[2.0] * 6, [-2.0] * 6])

    def two(points):
        far = ((points[:, None] - centres) ** 2).sum(axis=2)
        return np.exp(-far / 0.5) @ [3.0, 1.0]

    drawn = by_population(two, ((-5.0,) * 6, (5.0,) * 6), 1000, np.random.default_rng(0))
    assert abs((drawn[:, 0] > 0).mean() - 0.75) < 0.15
    near = drawn[drawn[:, 0] > 0]
    np.testing.assert_allclose(near.mean(axis=0), 2, atol=0.1)
    np.testing.assert_allclose(near.std(axis=0), 0.5, atol=0.1)


def test_the_nearest_vector_of_the_simplex_is_that_of_its_conditions():
    rng = np.random.default_rng(0)
    for size in (1, 2, 50):
        vector = rng.normal(size=size)
        near = _on_simplex(vector)
        assert near.min() >= 0
        assert near.sum() == pytest.approx(1)
        # All that is above 0 was moved equally, and what is 0 would have ended below.
        moved = (vector - near)[near > 0]
        np.testing.assert_allclose(moved, moved[0])
        assert (vector[near == 0] <= moved[0] + 1e-12).all()


def test_matched_weights_are_at_the_smallest_distance():
    # No exchange of weight between two points brings the sums much nearer: the gradient is level.
    rng = np.random.default_rng(0)
    positions = rng.uniform(0, 9, (40, 1))
    kernel = np.exp(-((positions - positions.T) ** 2) / 2)
    truth = np.zeros(40)
    truth[[3, 17, 30]] = 0.5, 0.3, 0.2
    weights = _simplex_weights(kernel, kernel @ truth)
    gap = weights - truth
    even = np.full(40, 1 / 40) - truth
    assert gap @ kernel @ gap < 0.01 * (even @ kernel @ even)


def test_matched_points_are_those_of_the_data_not_of_the_smoothed_density():
    points = np.random.default_rng(0).normal(0, 0.2, (5000, 2))
    sketch = KernelFourier(1.0, ((-4, -4), (4, 4)), rows=512, kernel="gaussian").update(points)
    field = field_of("test", sketch)
    rng = np.random.default_rng(3)
    match = matched(field, rng)
    drawn = match.drawn(field, 4000, rng)
    # The smoothed density has a deviation of sqrt(1 + 0.04) = 1.02 in each column.
    assert drawn.std(axis=0).max() < 0.5
    assert match.weights.sum() == pytest.approx(1)
    kernel = _kernel(field, match.positions)
    far = ((match.positions[:, None] - match.positions) ** 2).sum(axis=2)
    np.testing.assert_allclose(kernel, np.exp(-far / 2), atol=1e-5)


def test_matched_points_of_a_uniform_density_are_spread_evenly():
    # Counts of 4000 draws in 64 cells have the variance 62 if independent, 63 degrees of freedom:
    # below 25 with p < 1e-5. Measured 7; points and jitter alone had 136.
    points = np.random.default_rng(0).uniform(0, 1, (20_000, 3))
    model = SketchSampler(bandwidth=0.05, kernel="gaussian", bounds=(0, 1)).fit(points)
    field, rng = field_of("test", model), np.random.default_rng(3)
    match = matched(field, rng)
    assert match.even > 0.8
    drawn = match.drawn(field, 4000, rng)
    assert np.histogramdd(drawn, [4, 4, 4], [(0, 1)] * 3)[0].var() < 25


def test_spread_points_are_each_uniform_and_together_even():
    # One point of each of 4000 seeds: Kolmogorov-Smirnov with p > 1e-4, seeds fixed.
    box = (-1.0, 2.0, 0.0), (1.0, 2.5, 9.0)
    one = np.stack([spread(box, 3, np.random.default_rng(seed))[2] for seed in range(4000)])
    for column, low, high in zip(one.T, *box, strict=True):
        assert kstest((column - low) / (high - low), "uniform").pvalue > 1e-4
    many = spread(box, 1000, np.random.default_rng(0))
    counts = np.histogramdd(many, [5, 5, 4], list(zip(*box, strict=True)))[0]
    assert counts.var() < 5  # 10 if independent
    assert spread(box, 0, np.random.default_rng(0)).shape == (0, 3)


@pytest.mark.parametrize("draw", [by_rejection, by_population])
def test_points_of_more_columns_than_numpy_has_axes_are_drawn(draw):
    box = (0.0,) * 100, (1.0,) * 100
    drawn = draw(lambda points: points[:, 0], box, 2000, np.random.default_rng(7))
    assert drawn.shape == (2000, 100)
    # Mean 2/3 of deviation .24: off by .04 with p < 1e-6 where draws are independent.
    assert abs(drawn[:, 0].mean() - 2 / 3) < 0.04

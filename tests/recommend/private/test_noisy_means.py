"""Biases and counts from noisy sums are nearer to the truth than the sums, whatever the noise."""

import numpy as np
import pytest

from sfumato.recommend.private.shrinkage import NoisyObservations, gains, shrunk_biases, true_counts

RNG = np.random.default_rng(11)
ROWS = 4000
COUNTS = np.exp(RNG.normal(4, 1, ROWS))


def squared(got, truth):
    return float(((got - truth) ** 2).mean())


@pytest.mark.parametrize("deviation", [0.05, 5.0, 60.0])
def test_counts_are_nearer_the_truth_than_the_noisy_ones(deviation):
    noisy = COUNTS + RNG.normal(0, deviation, ROWS)
    got = true_counts(noisy, deviation**2, COUNTS.sum())
    assert got.min() > 0
    assert got.sum() == pytest.approx(COUNTS.sum())
    # Cut at 0 they are what one would do at first; where noise is small there is nothing to gain.
    least = squared(np.maximum(noisy, 0), COUNTS)
    assert squared(got, COUNTS) < (0.9 * least if deviation > 10 else 1.05 * least + 1e-3)


def test_counts_of_noise_alone_are_finite_and_positive():
    for total in (-50.0, 0.0, 10.0):
        got = true_counts(RNG.normal(-40, 30, 50), 900.0, total)
        assert np.isfinite(got).all()
        assert got.min() > 0


def biased(noise, slope=0.0):
    """Sums of rows whose biases have a deviation of 0.3, about a line in the log of counts."""
    line = slope * (np.log(COUNTS) - np.log(COUNTS).mean())
    truth = line + RNG.normal(0, 0.3, ROWS)
    variance = COUNTS * 0.2 + noise
    sums = COUNTS * truth + RNG.normal(0, 1, ROWS) * np.sqrt(variance)
    return truth, NoisyObservations(sums[:, None], COUNTS[:, None], variance[:, None])


@pytest.mark.parametrize("noise", [1.0, 100.0, 4000.0])
def test_biases_are_nearly_as_good_as_with_the_true_prior(noise):
    truth, observed = biased(noise)
    best = observed.sums * 0.09 * observed.slope / (0.09 * observed.slope**2 + observed.variance)
    got, variance = shrunk_biases(observed, COUNTS)
    assert squared(got, truth) < 1.02 * squared(best[:, 0], truth)
    assert variance == pytest.approx(0.09, rel=0.25)


def test_biases_follow_the_line_of_the_counts():
    truth, observed = biased(4000.0, slope=0.4)
    best = observed.sums * 0.25 * observed.slope / (0.25 * observed.slope**2 + observed.variance)
    assert squared(shrunk_biases(observed, COUNTS)[0], truth) < 0.8 * squared(best[:, 0], truth)


def test_variances_of_nothing_are_within_few_errors_of_zero():
    # 40 columns of noise: beyond 5 errors has p < 1e-4 in all, the weights being many.
    variance = COUNTS[:, None] * np.full(40, 0.2) + 50
    slope = np.repeat(COUNTS[:, None], 40, axis=1)
    sums = RNG.normal(0, 1, (ROWS, 40)) * np.sqrt(variance)
    gain, found, error = gains(NoisyObservations(sums, slope, variance), 1e-4)
    assert (np.abs(found) < 5 * error).all()
    assert (gain > 0).all()


def test_variances_that_are_there_are_found():
    truth = RNG.normal(0, 0.1, (ROWS, 3))
    variance = np.repeat(COUNTS[:, None] * 0.2 + 50, 3, axis=1)
    slope = np.repeat(COUNTS[:, None], 3, axis=1)
    sums = slope * truth + RNG.normal(0, 1, (ROWS, 3)) * np.sqrt(variance)
    _, found, error = gains(NoisyObservations(sums, slope, variance), 1e-4)
    np.testing.assert_allclose(found, 0.01, rtol=0.25)
    assert (found > 10 * error).all()


def test_a_variance_that_few_rows_make_up_is_not_clear():
    variance = np.repeat(COUNTS[:, None] * 0.2 + 50, 2, axis=1)
    slope = np.repeat(COUNTS[:, None], 2, axis=1)
    sums = RNG.normal(0, 1, (ROWS, 2)) * np.sqrt(variance)
    sums[np.argsort(COUNTS)[-5:]] *= 40
    _, found, error = gains(NoisyObservations(sums, slope, variance), 1e-4)
    assert (found > 0).all()
    assert (found < 3 * error).all()

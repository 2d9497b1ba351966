"""The probabilities of a bad projection are exact or upper bounds, and shrink with the error."""

import numpy as np
import pytest
from scipy import stats

from sfumato.sketch import concentration


@pytest.mark.parametrize("dimensions", [1, 10, 1000])
@pytest.mark.parametrize("error", [0.05, 0.5, 1.5])
def test_gaussian_probability_is_that_of_chi_square(dimensions, error):
    chi2 = stats.chi2(dimensions)
    want = chi2.sf(dimensions * (1 + error)) + chi2.cdf(dimensions * (1 - error))
    assert concentration.gaussian(dimensions, error) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("dimensions", [1, 20, 300])
@pytest.mark.parametrize("error", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_both_tails_of_moments_are_upper_bounds(dimensions, error):
    # For Q of mean square 1 and fourth moment at most 3, E exp(-h Q**2) <= 1 - h + 3 h**2 / 2; the
    # best h must give less than the closed formula. The upper tail is Chernoff's of chi-square.
    above = ((1 + error) * np.exp(-error)) ** (dimensions / 2)
    assert above >= stats.chi2(dimensions).sf(dimensions * (1 + error))
    h = np.linspace(1e-6, 3, 100_001)
    best = float(np.min(np.log(1 - h + 1.5 * h**2) + h * (1 - error)))
    below = concentration.moments(dimensions, error) - above
    assert np.exp(dimensions * best) <= below * (1 + 1e-9)
    assert concentration.moments(dimensions, 1 + error) == pytest.approx(
        ((2 + error) * np.exp(-1 - error)) ** (dimensions / 2)
    )


def test_hadamard_probability_is_zero_when_all_is_sampled_and_exponential_when_many_are():
    assert concentration.hadamard(64, 64, 0.01) == 0
    assert (
        concentration.hadamard(2**13, 2**16, 0.5)
        < 1e-6
        < 1e-4
        < concentration.chebyshev(2 / 2**13, 0.5)
    )
    assert concentration.hadamard(8, 2**10, 0.9) == pytest.approx(2 * (1016 / 1023) / 8 / 0.81)


def test_hadamard_probability_is_consistent_with_its_two_halves():
    dimensions, length, error = 2**13, 2**16, 0.5
    probability = concentration.hadamard(dimensions, length, error)
    top = 2 * np.log(
        4 * length / probability
    )  # a larger squared coordinate has at most half the probability
    assert 2 * length * np.exp(-top / 2) == pytest.approx(probability / 2)
    bernstein = 2 * np.exp(-dimensions * error**2 / (2 * (top - 1 + top * error / 3)))
    assert bernstein == pytest.approx(probability / 2, rel=1e-6)


def test_smallest_error_inverts_the_probability():
    for dimensions, miss in ((1, 0.01), (50, 0.1), (4000, 1e-9)):
        error = concentration.smallest_error(
            lambda e, k=dimensions: concentration.gaussian(k, e), miss
        )
        assert concentration.gaussian(dimensions, error) == pytest.approx(miss, rel=1e-6)
    assert concentration.smallest_error(lambda error: 0.0, 0.01) < 1e-20

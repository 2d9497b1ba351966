"""Bounds from counts: their confidence is valid, their ceilings attained, bad counts refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.attack import GaussianFit, LowerBound, epsilon_lower_bound, gaussian_fit
from sfumato.attack.mechanism_audit.lower_bounds import noise_epsilon, rate_bounds
from sfumato.privacy.accounting.calibration import gaussian_epsilon
from sfumato.privacy.accounting.losses import GaussianNoise


def chance_of_exceeding(bound, true_rate, false_rate, trials):
    """Exact probability that a bound exceeds the true value, over all pairs of counts."""
    hits, alarms = (binom.pmf(np.arange(trials + 1), trials, p) for p in (true_rate, false_rate))
    return sum(
        hits[i] * alarms[j]
        for i in range(trials + 1)
        for j in range(trials + 1)
        if bound(i, trials, j, trials)
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.2, 0.0), (1.0, 0.1)])
@pytest.mark.parametrize("false_rate", [0.02, 0.2])
def test_too_high_a_bound_is_as_rare_as_promised(epsilon, delta, false_rate):
    true_rate = math.exp(epsilon) * false_rate + delta

    def exceeds(*counts):
        return epsilon_lower_bound(*counts, delta, 0.9).epsilon > epsilon

    exact = chance_of_exceeding(exceeds, true_rate, false_rate, 40)
    assert exact <= 0.1
    # The complement of the same guess is weighed too: the mirrored rates must hold as well.
    assert chance_of_exceeding(exceeds, 1 - false_rate, 1 - true_rate, 40) <= 0.1


def test_too_high_a_mu_is_as_rare_as_promised():
    true_rate = norm.cdf(0.8 + norm.ppf(0.2))

    def exceeds(*counts):
        return gaussian_fit(*counts, 0.9).mu > 0.8

    assert 0.001 < chance_of_exceeding(exceeds, true_rate, 0.2, 40) <= 0.1


def test_the_ends_are_those_of_clopper_and_pearson():
    least, greatest = rate_bounds(7, 30, 4, 20, 0.9)
    assert binom.sf(6, 30, least) == pytest.approx(0.05)
    assert binom.cdf(4, 20, greatest) == pytest.approx(0.05)
    assert rate_bounds(0, 5, 5, 5, 0.9) == (0, 1)


def test_delta_is_taken_off_before_the_ratio():
    plain, spared = epsilon_lower_bound(50, 100, 1, 100), epsilon_lower_bound(50, 100, 1, 100, 0.3)
    least, greatest = rate_bounds(50, 100, 1, 100, 0.95)
    assert plain.epsilon == pytest.approx(math.log(least / greatest))
    assert spared.epsilon == pytest.approx(math.log((least - 0.3) / greatest))


def test_an_event_and_its_complement_show_the_same():
    rare, common = epsilon_lower_bound(50, 100, 1, 100), epsilon_lower_bound(99, 100, 50, 100)
    assert rare.epsilon == pytest.approx(common.epsilon)
    assert rare.epsilon > 1


def test_perfect_separation_reaches_the_ceiling_and_nothing_passes_it():
    best = epsilon_lower_bound(1000, 1000, 0, 1000)
    assert (
        best.epsilon == best.ceiling == pytest.approx(math.log(1000 / -math.log(0.025)), abs=0.01)
    )
    for hits in range(41):
        some = epsilon_lower_bound(hits, 40, 0, 40)
        assert some.epsilon <= some.ceiling
    assert gaussian_fit(1000, 1000, 0, 1000).mu == gaussian_fit(5, 1000, 5, 1000).ceiling


def test_guesses_no_better_than_chance_show_nothing():
    for hits, alarms in ((0, 0), (10, 10), (3, 7), (5, 5), (0, 10)):
        assert epsilon_lower_bound(hits, 10, alarms, 10).epsilon == 0
        assert gaussian_fit(hits, 10, alarms, 10).mu == 0


def test_the_gaussian_curve_is_that_of_the_hockey_stick():
    fit = GaussianFit(0.9, 9, 0.95)
    x = np.linspace(-12, 12, 400_001)
    for epsilon in (0, 0.5, 2.0, 5.0):
        over = norm.pdf(x - 0.9) - math.exp(epsilon) * norm.pdf(x)
        assert fit.delta(epsilon) == pytest.approx(
            np.maximum(over, 0).sum() * (x[1] - x[0]), rel=1e-5
        )
        assert fit.epsilon(fit.delta(epsilon)) == pytest.approx(epsilon, abs=1e-9)
    assert GaussianFit(0.0, 9, 0.95).epsilon(1e-9) == 0


@pytest.mark.parametrize("variance", [Fraction(1, 4), 4, 900, 10_000])
@pytest.mark.parametrize("cells", [1, 3])
def test_lattice_noise_is_held_against_its_own_curve(variance, cells):
    # Exact rates of the middle threshold, as if from endless trials: noise as claimed meets its
    # claim, narrower noise exceeds it. The continuous curve would cry wolf at variance 1/4.
    noise = GaussianNoise(variance, cells=cells)
    claim = gaussian_epsilon(1e-6, variance, cells=cells)
    least, greatest = lattice_rates(variance, cells)
    assert 0.99 * claim < noise_epsilon(noise, least, greatest, 1e-6) <= claim * (1 + 1e-5)
    assert noise_epsilon(noise, *lattice_rates(0.9 * variance, cells), 1e-6) > claim
    wider = noise_epsilon(noise, *lattice_rates(2 * variance, cells), 1e-6)
    assert 0.4 * claim < wider < 0.8 * claim


def lattice_rates(variance, cells):
    """How often the sum of the cells passes its middle, with the change and without."""
    half_width = int(12 * math.sqrt(variance)) + 2
    one = np.exp(-(np.arange(-half_width, half_width + 1.0) ** 2) / (2 * float(variance)))
    total = one / one.sum()
    for _ in range(cells - 1):
        total = np.convolve(total, one / one.sum())
    middle = total.size // 2
    threshold = (cells + 1) // 2
    return total[middle + threshold - cells :].sum(), total[middle + threshold :].sum()


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ((1, 0, 0, 1), "positives must be an integer from 1 to 1000000000000, not 0"),
        ((1, 1, 0, -1), "negatives"),
        ((6, 5, 0, 5), "true_positives must be an integer from 0 to 5, not 6"),
        ((5, 5, 1.5, 5), "false_positives"),
    ],
)
@pytest.mark.parametrize("bound", [epsilon_lower_bound, gaussian_fit])
def test_impossible_counts_are_refused(bound, counts, named):
    with pytest.raises(ValueError, match=f"^{bound.__name__}: {named}"):
        bound(*counts)


@pytest.mark.parametrize("bad", [1, -0.1, math.nan, "much"])
def test_impossible_deltas_and_confidences_are_refused(bad):
    with pytest.raises(ValueError, match="epsilon_lower_bound: delta"):
        epsilon_lower_bound(1, 2, 0, 2, bad)
    for bound in (epsilon_lower_bound, gaussian_fit):
        with pytest.raises(ValueError, match=f"{bound.__name__}: confidence"):
            bound(1, 2, 0, 2, confidence=bad)


def test_a_bound_reads_as_a_sentence():
    assert repr(LowerBound(0.51234, 6.0, 0.95, 1e-6)) == (
        "epsilon >= 0.5123 at delta 1e-06 (confidence 0.95; at most 6 could show)"
    )
    assert LowerBound(0.5, 6.0, 0.95).to_dict() == {
        "epsilon": 0.5, "ceiling": 6.0, "confidence": 0.95, "delta": 0.0
    }  # fmt: skip

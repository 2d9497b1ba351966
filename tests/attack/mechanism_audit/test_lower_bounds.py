"""One run, many canaries: the bound is the paper's, keeps its confidence, and is near the truth."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.attack import one_run_lower_bound
from sfumato.attack.mechanism_audit.lower_bounds import tail_probability
from sfumato.privacy.noise.discrete import coins
from sfumato.privacy.random_source import InsecureSeededSource


def test_pure_privacy_is_the_tail_of_randomised_response():
    for correct, guesses, epsilon in (
        (75, 100, 0.5),
        (9, 10, 2.0),
        (0, 5, 1.0),
        (30_100, 40_000, 1),
    ):
        accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
        tail = binom.sf(correct - 1, guesses, accuracy)
        assert tail_probability(correct, guesses, 50_000, 0, epsilon) == pytest.approx(tail)


def test_delta_lifts_the_densest_stretch_below():
    correct, guesses, canaries, delta, epsilon = 40, 50, 200, 1e-4, 0.7
    distribution = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    stretches = [
        (distribution.sf(correct - 1 - i) - distribution.sf(correct - 1)) / i
        for i in range(1, canaries)
    ]
    wanted = distribution.sf(correct - 1) + 2 * canaries * delta * max(stretches)
    assert tail_probability(correct, guesses, canaries, delta, epsilon) == pytest.approx(wanted)


def test_the_examples_of_the_paper():
    # 75 right of 100 guesses among 1000 canaries show 0.673 (its appendix D, page 46), 1439 of 1510
    # among 100,000 show 2.675 (page 28).
    assert one_run_lower_bound(75, 100, 1000, 1e-4).epsilon == pytest.approx(0.673, abs=5e-4)
    assert one_run_lower_bound(1439, 1510, 100_000, 1e-5).epsilon == pytest.approx(2.675, abs=1e-3)


def test_everything_below_the_bound_is_refuted_and_nothing_above():
    # The probability must not fall again as epsilon grows, or bisection would miss an allowed one.
    for counts in ((75, 100, 1000, 1e-4), (7310, 10_000, 10_000, 1e-6), (28, 30, 900, 1e-5)):
        bound = one_run_lower_bound(*counts).epsilon
        rising = [tail_probability(*counts, epsilon) for epsilon in np.linspace(0, 2 * bound, 101)]
        assert all(np.diff(rising) >= -1e-12)
        assert rising[50] == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response_is_bounded_below_its_claim_and_near_it(epsilon):
    # Seeded. At confidence 1 - 1e-9 the bound exceeds the claim with p < 1e-9; at 0.95 it is below
    # 0.9 of the claim with p < 1e-5 (epsilon 0.5: 5 deviations of the number of right guesses).
    source = InsecureSeededSource(int(10 * epsilon))
    flip = 1 / (1 + math.exp(epsilon))
    taken = coins(0.5, 10_000, source=source)
    reports = taken ^ coins(flip, 10_000, source=source)
    correct = int((reports == taken).sum())
    assert one_run_lower_bound(correct, 10_000, 10_000, confidence=1 - 1e-9).epsilon <= epsilon
    for delta in (0, 1e-7):
        assert one_run_lower_bound(correct, 10_000, 10_000, delta).epsilon > 0.8 * epsilon


def test_too_high_a_bound_is_as_rare_as_promised():
    distribution = binom(200, 1 / (1 + math.exp(-1)))
    above = [v for v in range(201) if one_run_lower_bound(v, 200, 200, confidence=0.9).epsilon > 1]
    assert 0.05 < distribution.pmf(above).sum() <= 0.1


def test_no_bound_passes_the_ceiling_and_abstaining_costs_only_through_delta():
    best = one_run_lower_bound(100, 100, 100)
    assert best.epsilon == best.ceiling == one_run_lower_bound(60, 100, 100).ceiling
    assert one_run_lower_bound(90, 100, 100) == one_run_lower_bound(90, 100, 10_000)
    few, many = (one_run_lower_bound(90, 100, m, 1e-5).epsilon for m in (100, 10_000))
    assert many < few < one_run_lower_bound(90, 100, 100).epsilon
    assert one_run_lower_bound(0, 1, 1).epsilon == one_run_lower_bound(50, 100, 100).epsilon == 0


@pytest.mark.parametrize(
    ("counts", "named"),
    [
        ((1, 1, 0), "canaries must be an integer from 1 up, not 0"),
        ((1, 6, 5), "guesses must be an integer from 1 to 5, not 6"),
        ((2.5, 5, 5), "correct"),
        ((1, 5, 5, 1.0), "delta"),
        ((1, 5, 5, 0, 1.0), "confidence"),
    ],
)
def test_impossible_counts_are_refused(counts, named):
    with pytest.raises(ValueError, match=f"^one_run_lower_bound: {named}"):
        one_run_lower_bound(*counts)

"""Limits from information: no test or decoder beats them; those printed are beaten."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.attack import bounds


def divergence(p, q):
    support = p > 0
    return float((p[support] * np.log(p[support] / q[support])).sum())


def best_tests(with_item, without):
    """Misses and false alarms of all likelihood tests, the best there are (Neyman and Pearson)."""
    order = np.argsort(-with_item / without)
    return 1 - np.cumsum(with_item[order])[:-1], np.cumsum(without[order])[:-1]


def test_no_test_beats_the_least_false_positive_rate():
    draws = np.random.default_rng(0)
    broken = 0
    for _ in range(200):
        size = draws.integers(2, 12)
        p, q = draws.dirichlet(np.full(size, 0.5), 2) + 1e-9
        p, q = p / p.sum(), q / q.sum()
        misses, alarms = best_tests(p, q)
        misses = np.maximum(misses, 0)
        result = divergence(p, q)
        assert (alarms >= bounds.least_false_positive_rate(result, misses) * (1 - 1e-9)).all()
        broken += int((alarms < np.exp(-result / (1 - misses)) * (1 - 1e-9)).any())
    assert broken > 50  # (3.12) as printed is no bound


def test_the_least_rate_is_reached_and_lies_between_its_closed_forms():
    miss = np.array([0.0, 0.01, 0.3, 0.9])[:, None]
    result = np.array([0.0, 0.01, 1.0, 30.0, 600.0])
    rate = bounds.least_false_positive_rate(result, miss)
    # A channel of one coin is distinguished by exactly its divergence.
    reached = bounds.binary_divergence(1 - miss, rate)
    np.testing.assert_allclose(reached[:, :4], np.broadcast_to(result[:4], (4, 4)), atol=1e-9)
    closed = np.exp(-(result + bounds.binary_entropy(miss)) / (1 - miss))
    assert (rate >= closed * (1 - 1e-9)).all()
    assert (rate <= 1 - miss + 1e-12).all()
    np.testing.assert_allclose(rate[0], np.exp(-result))


def test_the_probability_of_any_alarm_is_that_of_independent_tests():
    for rate, others in ((0.01, 30), (1e-9, 10**6), (0.0, 5), (1.0, 5), (0.3, 0)):
        truth = binom.sf(0, others, rate)
        assert bounds.any_false_positive(rate, others) == pytest.approx(truth, rel=1e-12)
        assert truth <= others * rate
    # Rates that vary with the release raise fewer alarms overall than their mean rate does.
    rates = np.array([0.0, 0.2])
    assert bounds.any_false_positive(rates, 10).mean() < bounds.any_false_positive(0.1, 10)


@pytest.mark.parametrize("expected", [0.0, 0.5, 12.0, 900.0])
@pytest.mark.parametrize("miss", [0.0, 0.2])
def test_the_largest_catalogue_is_where_alarms_reach_their_rate(expected, miss):
    limit = float(bounds.largest_catalogue(expected, miss, 0.05))
    rate = float(bounds.least_false_positive_rate(expected, miss))
    if 0 < rate < 1:
        assert bounds.any_false_positive(rate, math.exp(limit)) == pytest.approx(0.05)
    if expected == 900:  # beyond what floats can hold as a rate
        assert limit == pytest.approx(900 / (1 - miss) + math.log(-math.log(0.95)), rel=2e-3)


def all_filters(items, hashes, bits, size, seed):
    """The filters of all profiles of a small catalogue, as rows of bits."""
    positions = np.random.default_rng(seed).integers(0, bits, (items, hashes))
    words = np.zeros((items, bits), bool)
    np.put_along_axis(words, positions, True, axis=1)
    chosen = np.array(list(itertools.combinations(range(items), size)))
    return words[chosen].any(axis=1)


@pytest.mark.parametrize("flip", [0.001, 0.02, 0.1, 0.3])
@pytest.mark.parametrize(("items", "size", "bits"), [(6, 2, 10), (9, 3, 11), (12, 2, 9)])
def test_no_joint_decoder_beats_fano_and_the_printed_limit_is_broken(items, size, bits, flip):
    filters = all_filters(items, 2, bits, size, seed=1)
    observed = (np.arange(2**bits)[:, None] >> np.arange(bits) & 1).astype(bool)
    apart = (filters[:, None] != observed[None]).sum(axis=2)
    distribution = flip**apart * (1 - flip) ** (bits - apart) / len(filters)
    mean = distribution.sum(axis=0)
    result = float((distribution * np.log(distribution * len(filters) / mean)).sum())
    error = 1 - float(distribution.max(axis=0).sum())  # of the best decoder: it accepts one profile
    # An error both misses the true profile and accepts another.
    limit = float(bounds.largest_joint_catalogue(result, size, error / 2, error / 2))
    assert math.log(items) <= limit + 1e-9
    printed = result / (size * (1 - error)) + math.log(error)
    assert flip > 0.2 or math.log(items) > printed


def test_the_joint_limit_solves_for_the_number_of_profiles():
    for size, result in ((1, 5.0), (106, 78.0), (106, 500.0), (3, 400.0)):
        items = math.exp(float(bounds.largest_joint_catalogue(result, size, 0, 0)))
        ways = sum(math.log(items - i) - math.log(size - i) for i in range(size))
        assert ways == pytest.approx(result, rel=1e-6)
    grid = bounds.largest_joint_catalogue(np.array([[10.0], [20.0]]), [1, 2, 3], 0.1, 0.1)
    assert grid.shape == (2, 3)
    assert (grid[1] > grid[0]).all()


@pytest.mark.parametrize("bad", [-0.1, 1.0, math.nan])
def test_impossible_rates_are_refused(bad):
    with pytest.raises(ValueError, match="least_false_positive_rate: miss_rate must be numbers"):
        bounds.least_false_positive_rate(1, bad)
    with pytest.raises(ValueError, match="largest_catalogue: alarm_rate"):
        bounds.largest_catalogue(1, 0, bad)
    with pytest.raises(ValueError, match="largest_catalogue: alarm_rate must be above 0"):
        bounds.largest_catalogue(1, 0, 0)
    with pytest.raises(ValueError, match=r"miss_rate \+ alarm_rate"):
        bounds.largest_joint_catalogue(1, 1, 0.5, 0.5)

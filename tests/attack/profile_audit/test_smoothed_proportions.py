"""Proportions of items: the fitted beta prior is the likeliest, and unseen items are unbiased."""

import numpy as np
import pytest
from scipy.stats import betabinom

from sfumato.attack.profile_audit.ground_truth import _likeliest, smoothed_proportions


def drawn(a, b, items=3000, users=200, seed=0):
    draws = np.random.default_rng(seed)
    proportions = draws.beta(a, b, items)
    return proportions, draws.binomial(users, proportions), users


def likelihood(counts, users, a, b):
    return betabinom.logpmf(counts, users, a, b).sum()


@pytest.mark.parametrize(("a", "b"), [(0.2, 50), (0.6, 8), (3, 30)])
def test_no_prior_nearby_makes_the_counts_likelier(a, b):
    _, counts, users = drawn(a, b)
    found = _likeliest(counts, users, 0.5, 0.5)
    best = likelihood(counts, users, *found)
    assert best >= likelihood(counts, users, a, b) - 1e-3
    for factor in (0.98, 1.02):
        assert likelihood(counts, users, found[0] * factor, found[1]) < best
        assert likelihood(counts, users, found[0], found[1] * factor) < best


def test_items_that_nobody_known_has_are_as_likely_as_they_are():
    # The mean true proportion of unseen items: 2,000 or more of them, five standard errors allowed
    # (failure probability below 1e-6 for another seed).
    proportions, counts, users = drawn(0.2, 50)
    unseen = counts == 0
    result = smoothed_proportions(counts, users)[unseen]
    error = proportions[unseen].std() / np.sqrt(unseen.sum())
    assert unseen.sum() > 1000
    assert abs(result.mean() - proportions[unseen].mean()) < 5 * error
    assert result.mean() > 10 * counts.mean() / users / (
        users + 1
    )  # what one average user would say


@pytest.mark.parametrize("counts", [np.zeros(30, int), np.full(30, 40), np.full(30, 20)])
def test_counts_without_variance_still_give_proportions(counts):
    result = smoothed_proportions(counts, 40)
    assert ((result > 0) & (result < 1)).all()
    assert abs(result - counts / 40).max() < 0.05

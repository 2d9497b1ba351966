"""Dampings are the ratio of variances that ratings were made with, and targets get one unit."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend.factorization import damping
from sfumato.recommend.factorization.damping import BiasPrior


def crossed(user_deviation, item_deviation, deviation, rows=40_000, seed=0):
    """Ratings of 2000 users and 1000 items by their biases and a residual, all normal."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(2000, size=rows), rng.integers(1000, size=rows)
    biases = rng.normal(0, user_deviation, 2000)[users] + rng.normal(0, item_deviation, 1000)[items]
    return Interactions(users, items, biases + rng.normal(0, deviation, rows))


def prior_of(data):
    return BiasPrior.of(data.coded(), data.ratings - data.ratings.mean())


@pytest.mark.parametrize("rows", [1 << 17, 20_000], ids=["all rows", "a sample"])
def test_dampings_are_ratios_of_variances(rows, monkeypatch):
    monkeypatch.setattr(damping, "ROWS", rows)
    prior = prior_of(crossed(0.5, 0.25, 1.0))
    # The variance of 2000 biases is known to 3 %, of which each is measured to 20 %: 5 deviations.
    assert prior.user_damping == pytest.approx(4.0, rel=0.25)
    assert prior.item_damping == pytest.approx(16.0, rel=0.35)
    assert prior.unit == pytest.approx(1 / 0.9, rel=0.03)
    assert prior.user_biases.size == 2000
    assert np.std(prior.user_biases * prior.unit) == pytest.approx(0.5, rel=0.15)


def test_ratings_without_biases_are_damped_to_nothing():
    prior = prior_of(crossed(0.0, 0.0, 1.0))
    assert min(prior.user_damping, prior.item_damping) > 100


def test_few_ratings_leave_the_usual_damping():
    one = Interactions(users=[1, 2, 3], items=[1, 1, 2], ratings=[1.0, 2.0, 5.0])
    prior = prior_of(one)
    assert min(prior.user_damping, prior.item_damping) > 2
    assert max(prior.user_damping, prior.item_damping) < 10


@pytest.mark.parametrize("ratings", [[3.0, 3.0, 3.0], [1e200, -1e200, 0.0]])
def test_ratings_that_show_nothing_get_the_prior_itself(ratings):
    data = Interactions(users=[1, 2, 3], items=[1, 1, 2], ratings=ratings)
    assert prior_of(data) == BiasPrior()

"""What private models are held against: each learns, and says what it hides and what not."""

from functools import partial

import numpy as np
import pytest

from sfumato.data import generate_world
from sfumato.privacy.accounting.accountant import Accountant
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend.metrics.rating import rmse
from sfumato.recommend.private.factorization import PrivateFactorization
from support.benchmarks import benchmark

peers = benchmark("_private_baselines")

WORLD = generate_world(users=200, items=100, ratings=8000, factors=2, random_state=3).interactions
TRAIN, TEST = WORLD.split(0.8, 0.2, random_state=0)
LISTS = {"users": range(200), "catalogue": range(100)}
MAKERS = {
    "descent": peers.NoisyDescent,
    "ratings": peers.NoisyRatings,
    "means": partial(PrivateFactorization, factors=1),
}


def fitted(name, epsilon):
    model = MAKERS[name](epsilon=epsilon, delta=1e-6, bounds=(1, 5))
    return model.fit(TRAIN, source=InsecureSeededSource(4), **LISTS)


@pytest.mark.parametrize("name", MAKERS)
def test_much_budget_learns_more_than_the_mean_and_little_less(name):
    much, little = (
        rmse(TEST.ratings, fitted(name, epsilon).predict(TEST.users, TEST.items))
        for epsilon in (100, 0.5)
    )
    assert much < TEST.ratings.std() - 0.05
    assert much < little


@pytest.mark.parametrize("name", MAKERS)
def test_the_statement_costs_what_was_asked(name):
    result = fitted(name, 4).statement
    relation = "replace" if name == "ratings" else "add/remove"
    assert (result.unit, result.relation) == ("event", relation)
    assert result.insecure  # a seeded source is said
    loss = Accountant(relation=relation).compose(Loss.from_dict(result.loss))
    assert 3.9 < loss.epsilon(1e-6) <= 4


@pytest.mark.parametrize("name", MAKERS)
def test_a_delta_that_covers_all_by_itself_still_states_an_epsilon(name):
    model = MAKERS[name](epsilon=1e-5, delta=0.1, bounds=(1, 5)).fit(TRAIN, **LISTS)
    assert 0 < model.statement.epsilon <= 1e-5


def test_noisy_ratings_say_that_presence_is_in_the_clear():
    assert "in the clear" in fitted("ratings", 4).statement.covers


def test_no_gradient_of_an_event_is_longer_than_the_clip():
    rng = np.random.default_rng(0)
    p, q = rng.normal(0, 3, (50, 6)), rng.normal(0, 3, (50, 6))
    p[:5] = 0
    longest = 0.0
    for event in range(50):
        place = np.array([event], np.int32)
        sums = peers.gradients((place, place, np.array([9.0])), [p, q], 1.0, 4096)
        norm = sum(int((each.astype(object) ** 2).sum()) for each in sums)
        assert norm <= 4096**2
        longest = max(longest, norm / 4096**2)
    assert longest > 0.99

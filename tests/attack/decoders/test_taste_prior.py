"""A prior that knows which items go together, and what attackers gain by it."""

import tracemalloc

import numpy as np
import pytest

from sfumato.attack import BitChannel, item_prior, joint_decoder, learn_prior, single_decoder
from sfumato.attack.decoders.taste_prior import _main_directions
from sfumato.data import Interactions

ITEMS, KNOWN = 120, 300


@pytest.fixture(scope="module")
def world():
    """Users of three tastes, who have a third of the items of their own and few of the others."""
    draws = np.random.default_rng(5)
    taste = draws.integers(3, size=KNOWN + 60)
    probability = np.where(np.arange(ITEMS) % 3 == taste[:, None], 0.35, 0.05)
    has = draws.random(probability.shape) < probability
    users, items = np.nonzero(has[:KNOWN])
    return Interactions(users, items, np.ones(users.size)), has[KNOWN:], taste[KNOWN:]


@pytest.fixture(scope="module")
def prior(world):
    return learn_prior(world[0], np.arange(ITEMS), traits=3, rounds=20)


def noised(has, flip):
    draws = np.random.default_rng(6)
    positions = draws.integers(0, 600, (ITEMS, 8))
    filled = np.zeros((len(has), 600), bool)
    users, items = np.nonzero(has)
    filled[users[:, None], positions[items]] = True
    return BitChannel(filled ^ (draws.random(filled.shape) < flip), positions, flip)


def found(scores, has):
    first = np.arange(ITEMS) < has.sum(axis=1)[:, None]
    best = np.take_along_axis(has, np.argsort(-scores, axis=1), axis=1)
    return (best & first).sum() / has.sum()


def test_without_evidence_it_is_the_popularity(world, prior):
    result = prior.log_odds(np.zeros((1, ITEMS)), slice(0, 1))[0]
    fractions = item_prior(world[0], np.arange(ITEMS))
    np.testing.assert_allclose(1 / (1 + np.exp(-result)), fractions, atol=0.05)
    assert prior.total == pytest.approx(len(world[0]) / KNOWN)


def test_evidence_of_some_items_raises_those_that_go_with_them(prior):
    ratios = np.zeros((1, ITEMS))
    ratios[0, 0:30:3] = 5.0  # ten items of the first taste are almost sure
    result = prior.log_odds(ratios, slice(0, 1))[0]
    others = np.arange(30, ITEMS)
    assert result[others[others % 3 == 0]].min() > result[others[others % 3 != 0]].max()


@pytest.mark.parametrize("method", ["propagation", "gibbs"])
def test_it_finds_more_than_popularity_and_the_same_release_do(world, prior, method):
    # Margins observed over 10 seeds of the noise: at least 0.056 and 0.085.
    known, has, _ = world
    observed, fractions = noised(has, 0.35), item_prior(known, np.arange(ITEMS))
    with_taste = found(joint_decoder(observed, None, prior, method=method), has)
    assert with_taste > found(joint_decoder(observed, None, fractions, method=method), has) + 0.03
    assert with_taste > found(single_decoder(observed, None, fractions), has) + 0.05


def test_an_items_own_evidence_is_not_counted_twice(prior):
    ratios = np.zeros((1, ITEMS))
    ratios[0, 7] = 4.0
    alone = prior.log_odds(np.zeros((1, ITEMS)), slice(0, 1))[0, 7]
    assert prior.log_odds(ratios, slice(0, 1))[0, 7] == pytest.approx(alone, abs=0.1)


def test_the_same_users_give_the_same_prior(world, prior):
    again = learn_prior(world[0], np.arange(ITEMS), traits=3, rounds=20)
    np.testing.assert_array_equal(again.bias, prior.bias)
    np.testing.assert_array_equal(again.directions, prior.directions)


@pytest.mark.parametrize("users", [80, 700])  # below and above the number of items
def test_it_begins_with_the_directions_of_most_variance(users):
    draws = np.random.default_rng(8)
    taste = draws.integers(5, size=users)
    has = draws.random((users, ITEMS)) < np.where(np.arange(ITEMS) % 5 == taste[:, None], 0.6, 0.1)
    probability = has.mean(axis=0)
    _, values, right = np.linalg.svd(has - probability, full_matrices=False)
    found = _main_directions(has, probability, 4)
    np.testing.assert_allclose(
        found @ found.T, (right[:4].T * values[:4] ** 2) @ right[:4] / users, atol=2e-3
    )


def test_many_known_users_are_never_compared_with_each_other():
    # Users x users would be 64 MB, and its eigenvectors as much again.
    users = np.repeat(np.arange(4000), 3)
    known = Interactions(users, np.arange(users.size) % 7, np.ones(users.size))
    tracemalloc.start()
    learn_prior(known, np.arange(7), traits=2, rounds=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_it_must_fit_the_candidates_and_be_learned_from_someone(world, prior):
    observed = BitChannel(np.zeros((1, 9), bool), [[0, 1], [2, 3]], 0.1)
    with pytest.raises(ValueError, match="joint_decoder: prior was learned for 120 candidates"):
        joint_decoder(observed, None, prior)
    with pytest.raises(ValueError, match="at least one known user"):
        learn_prior(Interactions([], [], []), [1, 2])
    for name in ("traits", "shrinkage", "rounds"):
        with pytest.raises(ValueError, match=f"learn_prior: {name} must be"):
            learn_prior(world[0], np.arange(ITEMS), **{name: 0})

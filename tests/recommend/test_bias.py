"""Damped means are the formulas they state, and unseen ids deviate by nothing."""

import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world, read_interactions
from sfumato.recommend.bias import DampedMeans

REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
RATINGS = generate_world(users=80, items=60, ratings=1500, random_state=2).interactions


def by_hand(observed, damping):
    """The formulas of the docstring, row by row."""
    mean = sum(observed.ratings) / len(observed)
    items, users = {}, {}
    for item in set(observed.items):
        residuals = [
            r - mean for r, i in zip(observed.ratings, observed.items, strict=True) if i == item
        ]
        items[item] = sum(residuals) / (damping + len(residuals))
    for user in set(observed.users):
        residuals = [
            r - mean - items[i]
            for r, i, u in zip(observed.ratings, observed.items, observed.users, strict=True)
            if u == user
        ]
        users[user] = sum(residuals) / (damping + len(residuals))
    return mean, users, items


@pytest.mark.parametrize("damping", [0, 5, 2.5])
@pytest.mark.parametrize("kind", [int, str])
def test_means_are_those_worked_by_hand(damping, kind):
    observed = Interactions(
        [kind(user) for user in RATINGS.users.tolist()],
        [kind(item) for item in RATINGS.items.tolist()],
        RATINGS.ratings,
    )
    mean, users, items = by_hand(observed, damping)
    wanted = [
        mean + users[u] + items[i] for u, i in zip(observed.users, observed.items, strict=True)
    ]
    model = DampedMeans(damping=damping).fit(observed)
    assert np.allclose(model.predict(observed.users, observed.items), wanted, rtol=0, atol=1e-12)


def test_unseen_ids_deviate_by_nothing():
    model = DampedMeans().fit(RATINGS)
    known = model.predict([RATINGS.users[0], 999], [999, RATINGS.items[0]])
    deviations = dict(zip(model.user_ids_, model.user_means_, strict=True))
    assert known[0] == model.mean_ + deviations[RATINGS.users[0]]
    assert model.predict([999, -7], [999, -7]).tolist() == [model.mean_] * 2


def test_one_user_one_item_one_rating_is_enough():
    model = DampedMeans().fit(Interactions([1], ["tea"], [4]))
    assert model.predict(1, "tea").tolist() == [4.0]


def test_bytes_are_those_of_ids_and_deviations():
    assert DampedMeans().fit(Interactions([1, 2, 2], [5, 5, 6], [1, 2, 3])).nbytes == 4 * 16
    # Texts of 3, 3 and 6 bytes; beside each 8 for its end and 8 for its deviation.
    texts = DampedMeans().fit(Interactions(["ann", "ann"], ["tea", "crème"], [4, 5]))
    assert texts.nbytes == 3 + 3 + 6 + 3 * 16
    with pytest.raises(ValueError, match="fit it first"):
        _ = DampedMeans().nbytes


def test_means_need_ratings_ids_of_their_type_and_a_damping():
    with pytest.raises(ValueError, match="no ratings to learn from"):
        DampedMeans().fit(Interactions([], [], []))
    with pytest.raises(ValueError, match="damping must be a number from 0 up, not -1"):
        DampedMeans(damping=-1).fit(RATINGS)
    with pytest.raises(ValueError, match="fit it first"):
        DampedMeans().predict([1], [1])
    model = DampedMeans().fit(RATINGS)
    with pytest.raises(TypeError, match="users were integers in fit, and are texts now"):
        model.predict(["1"], [1])
    with pytest.raises(ValueError, match="differ in length, 2 and 1"):
        model.predict([1, 2], [1])


@pytest.mark.skipif(not (REAL / "movielens-1m").exists(), reason="the real set is not here")
def test_means_reach_the_known_error_on_movielens():
    train, _, test = read_interactions(REAL / "movielens-1m" / "ratings.dat.gz").split(
        0.8, 0.1, 0.1
    )
    model = DampedMeans().fit(train)
    predicted = np.clip(model.predict(test.users, test.items), 1, 5)
    # Seeds differ by about 0.001.
    assert abs(np.sqrt(np.mean((predicted - test.ratings) ** 2)) - 0.908) < 0.003

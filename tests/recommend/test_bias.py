"""Damped means are the formulas they state, and unseen ids deviate by nothing."""

import copy
import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world, read_interactions
from sfumato.recommend import ModelFormatError, load
from sfumato.recommend.bias import DAMPING, DampedMeans

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
    pairs = observed.users, observed.items
    assert np.allclose(model.unclipped(*pairs), wanted, rtol=0, atol=1e-12)
    assert np.array_equal(model.predict(*pairs), np.clip(model.unclipped(*pairs), 1, 5))
    assert dict(zip(model.item_ids_, model.item_means_, strict=True)) == pytest.approx(items)
    assert dict(zip(model.user_ids_, model.user_means_, strict=True)) == pytest.approx(users)


def test_unseen_ids_deviate_by_nothing():
    model = DampedMeans().fit(RATINGS)
    known = model.predict([RATINGS.users[0], 999], [999, RATINGS.items[0]])
    deviations = dict(zip(model.user_ids_, model.user_means_, strict=True))
    assert known[0] == model.mean_ + deviations[RATINGS.users[0]]
    assert model.predict([999, -7], [999, -7]).tolist() == [model.mean_] * 2


def test_one_user_one_item_one_rating_is_enough():
    model = DampedMeans().fit(Interactions([1], ["tea"], [4]))
    assert model.predict(1, "tea").tolist() == [4.0]


def test_the_worked_example_of_global_effects():
    # The mean is 3.7, Dark Knight is 0.5 above it, Joe 0.2 below.
    users, items = ["ann", "joe", "ann", "bob"], ["Dark Knight", "Joker", "Joker", "Cube"]
    ratings = Interactions(users, items, [4.2, 3.5, 3.9, 3.2])
    model = DampedMeans(damping=0, bounds=(1, 5)).fit(ratings)
    found = model.explain("joe", "Dark Knight")
    wanted = {"mean": 3.7, "user": -0.2, "item": 0.5, "score": 4.0, "prediction": 4.0}
    assert found == pytest.approx(wanted)
    assert model.predict("joe", "Dark Knight") == pytest.approx([4.0])


def test_users_and_items_have_their_own_damping():
    both, users, items = (DampedMeans(damping=each).fit(RATINGS) for each in (2, (9, 2), (2, 9)))
    assert np.array_equal(both.item_means_, users.item_means_)
    assert np.abs(users.user_means_).sum() < np.abs(both.user_means_).sum()
    assert np.abs(items.item_means_).sum() < np.abs(both.item_means_).sum()
    assert (both.dampings_, users.dampings_) == ((2.0, 2.0), (9.0, 2.0))


def test_dampings_are_estimated_from_the_data():
    # Of a residual's variance 1 that of users is 1/2 and that of items 1/10: dampings 2 and 10.
    random = np.random.default_rng(0)
    who, what = random.integers(400, size=20_000), random.integers(400, size=20_000)
    users, items = random.normal(0, 0.5**0.5, 400), random.normal(0, 0.1**0.5, 400)
    ratings = 10 + users[who] + items[what] + random.normal(size=who.size)
    found = DampedMeans(damping=None).fit(Interactions(who, what, ratings)).dampings_
    assert 1.6 < found.users < 2.5
    assert 8 < found.items < 12.5


def test_lists_are_those_of_the_deviations_and_a_new_user_is_like_a_stored_one():
    model = DampedMeans().fit(RATINGS)
    items, scores = model.recommend([RATINGS.users[0], 999], 60)
    deviations = dict(zip(model.item_ids_, model.item_means_, strict=True))
    assert (np.diff([deviations[each] for each in items[0]]) <= 1e-12).all()
    assert (np.diff([deviations[each] for each in items[1]]) <= 1e-12).all()
    assert scores[0] == pytest.approx(model.unclipped(RATINGS.users[0], items[0]))
    own = RATINGS.filter(RATINGS.users == RATINGS.users[0])
    rest, folded = model.recommend_fold_in(own.items, own.ratings, n=60)
    assert not set(rest) & set(own.items)
    assert folded == pytest.approx(model.unclipped(RATINGS.users[0], rest))


def test_rows_outside_of_a_catalogue_are_ignored():
    some = np.unique(RATINGS.items)[:20]
    inside = DampedMeans().fit(RATINGS, catalogue=some)
    alone = DampedMeans().fit(RATINGS.filter(np.isin(RATINGS.items, some)))
    pairs = RATINGS.users, RATINGS.items
    assert np.array_equal(inside.predict(*pairs), alone.predict(*pairs))
    with pytest.raises(ValueError, match="catalogue must have an item that train has"):
        DampedMeans().fit(RATINGS, catalogue=[10**6])


def test_bytes_are_those_of_users_and_deviations():
    assert DampedMeans().fit(Interactions([1, 2, 2], [5, 5, 6], [1, 2, 3])).nbytes == 2 * 8 + 4 * 8
    with pytest.raises(ValueError, match="call fit first"):
        _ = DampedMeans().nbytes


@pytest.mark.parametrize("kind", [int, str])
def test_a_file_answers_as_the_model_and_a_damaged_one_is_refused(kind):
    named = Interactions(
        list(map(kind, RATINGS.users)), list(map(kind, RATINGS.items)), RATINGS.ratings
    )
    model = DampedMeans(damping=(4.0, 2.0)).fit(named)
    read = load(model.to_bytes())
    assert repr(read) == repr(model)
    assert read.dampings_ == model.dampings_
    assert np.array_equal(
        read.predict(named.users, named.items), model.predict(named.users, named.items)
    )
    for name, wrong in (("_users", model._users[1:]), ("_items", model._items[:-1])):
        damaged = copy.copy(model)
        setattr(damaged, name, wrong)
        with pytest.raises(ModelFormatError, match="one per user and one per item"):
            load(damaged.to_bytes())


def test_means_need_ratings_ids_of_their_type_and_a_damping():
    with pytest.raises(ValueError, match="train is empty"):
        DampedMeans().fit(Interactions([], [], []))
    with pytest.raises(ValueError, match="damping must be a number from 0 up, not -1"):
        DampedMeans(damping=-1).fit(RATINGS)
    for bad in DAMPING.bad():
        with pytest.raises(ValueError, match="DampedMeans: damping must be"):
            DampedMeans(damping=bad).fit(RATINGS)
    with pytest.raises(ValueError, match="call fit first"):
        DampedMeans().predict([1], [1])
    model = DampedMeans().fit(RATINGS)
    with pytest.raises(TypeError, match="users are text, but the model knows integers"):
        model.predict(["1"], [1])
    with pytest.raises(ValueError, match="of one length, not 2 and 3"):
        model.predict([1, 2], [1, 2, 3])
    with pytest.warns(DeprecationWarning, match="interactions is now called train"):
        old = DampedMeans().fit(interactions=RATINGS)
    assert np.array_equal(old.user_means_, model.user_means_)


@pytest.mark.skipif(not (REAL / "movielens-1m").exists(), reason="the real set is not here")
def test_means_reach_the_known_error_on_movielens():
    train, _, test = read_interactions(REAL / "movielens-1m" / "ratings.dat.gz").split(
        0.8, 0.1, 0.1
    )
    model = DampedMeans().fit(train)
    predicted = np.clip(model.predict(test.users, test.items), 1, 5)
    # Seeds differ by about 0.001.
    assert abs(np.sqrt(np.mean((predicted - test.ratings) ** 2)) - 0.908) < 0.003

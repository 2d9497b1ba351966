"""Odd data: models without noise learn it, or refuse it by a sentence and stay as they were."""

import inspect
import json
import warnings

import numpy as np
import pytest

from sfumato.data import Features, Interactions
from sfumato.recommend import AttributeMeans, TfIdf, load
from sfumato.recommend.models import MODELS
from sfumato.recommend.ratings.base import RatingModel
from support.rating_models import SMALL, extras

KINDS = [name for name, entry in MODELS.items() if not entry.private]
RATED = [name for name in KINDS if "ratings" in MODELS[name].objectives]
QUICK = {
    "curated": {"items": [3, 1]},
    "hybrid": {"parts": {"content": {}, "linear-items": {}}},
    "dense": {"factors": 3, "epochs": 2},
    "sketch": {"factors": 3, "epochs": 2},
    "als": {"factors": 3, "epochs": 2},
    "time-svdpp": {"factors": 2, "epochs": 2},
}
RANDOM = np.random.default_rng(5)
USERS, ITEMS = np.divmod(RANDOM.permutation(20 * 12)[:90], 12)
RATINGS, TIMES = RANDOM.integers(1, 6, 90).astype(float), RANDOM.uniform(0, 3e7, 90)
TRAIN = Interactions(USERS, ITEMS, RATINGS, TIMES)
ODD = {
    "two rows": ([5, 6], [1, 3], [3.0, 4.0], [1e9, 2e9]),
    "histories of one item": (np.arange(30), np.arange(30) % 5, RATINGS[:30], TIMES[:30]),
    "no two users of an item": (np.arange(30), np.arange(30), RATINGS[:30], TIMES[:30]),
    "one time, far in the past": (USERS, ITEMS, RATINGS - 9, np.full(90, -1e12)),
    "one pair again and again": ([1, 1, 1, 2], [3, 3, 3, 1], [1.0, 5.0, 5.0, 2.0], [1.0] * 4),
}


def made(name):
    return MODELS[name].kind(**{**SMALL.get(name, {}), **QUICK.get(name, {})})


def takes_ratings(name):
    return "ratings" in inspect.signature(MODELS[name].kind.recommend_fold_in).parameters


def fitted(model, train):
    more = extras(model, train)
    if type(model).__name__ == "Hybrid":
        more = {"features": Features(np.arange(40), categories={"half": [*"ab"] * 20})}
    return model.fit(train, **more)


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("name", KINDS)
def test_odd_data_gives_finite_answers(name, case):
    train, model = Interactions(*ODD[case]), made(name)
    fitted(model, train)
    users, items = [train.users[0], 999], [train.items[0], 999]
    got = model.predict(np.repeat(users, 2), np.tile(items, 2))
    assert np.isfinite(got).all()
    for user in users:
        found, scores = model.recommend(user, 10**6, exclude=train)
        assert np.isfinite(scores).all()
        assert np.isin(found, model.catalogue_.ids).all()
        assert not model.recommend(user, filter=np.zeros(len(model.catalogue_), bool))[0].size
        if hasattr(model, "explain"):
            json.dumps([model.explain(user, item) for item in items], allow_nan=False)
    np.testing.assert_array_equal(load(model.to_bytes()).predict(users, items), got[[0, 3]])


@pytest.mark.parametrize("name", RATED)
def test_ratings_that_floats_do_not_hold_are_refused_and_change_nothing(name):
    model = fitted(made(name), TRAIN)
    want = model.predict(USERS, ITEMS)
    for scale in (1e200, 1e30, 1e-200):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match=r": ratings must be 0, or up to .*; scale them"):
                fitted(model, Interactions(USERS, ITEMS, RATINGS * scale, TIMES))
    np.testing.assert_array_equal(model.predict(USERS, ITEMS), want)
    assert np.isfinite(fitted(model, Interactions(USERS, ITEMS, 0 * RATINGS, TIMES)).mean_)


@pytest.mark.parametrize("name", ["temporal-means", "time-svdpp"])
def test_times_of_another_unit_are_refused_in_place_of_filling_the_memory(name):
    model, refused = fitted(made(name), TRAIN), r"day(s must suit| must be the length of) .* span"
    want = model.predict(USERS, ITEMS, TIMES)
    for times in (TIMES * 1e15, np.where(USERS > 3, TIMES, 4e15), (RATINGS - 3) * 8e307):
        with pytest.raises(ValueError, match=refused):
            fitted(model, Interactions(USERS, ITEMS, RATINGS, times))
    with pytest.raises(ValueError, match=refused):  # few bins, but more days than integers
        fitted(model.set_params(bin_days=1e300), Interactions(USERS, ITEMS, RATINGS, TIMES * 1e15))
    np.testing.assert_array_equal(model.predict(USERS, ITEMS, TIMES), want)


@pytest.mark.parametrize("name", [each for each in KINDS if takes_ratings(each)])
def test_ratings_of_a_new_user_are_one_number_per_item(name):
    model = fitted(made(name), TRAIN)
    for bad in ([1.0, 2.0], [np.nan], [np.inf], ["a"], [[1.0], [2.0]]):
        with pytest.raises(
            ValueError, match=r"\w+: ratings must be 1 finite numbers, one per item"
        ):
            model.recommend_fold_in([3], bad)
    assert np.isfinite(model.recommend_fold_in([3, 5], [1e300, -1e300])[1]).all()
    got, want = model.recommend_fold_in([], []), model.recommend_fold_in([])
    np.testing.assert_array_equal(got, want)
    if isinstance(model, RatingModel):  # as in training, the mean of several ratings counts
        got, want = model.recommend_fold_in([3, 5, 3], [1, 2, 5]), ([3, 5], [3, 2])
        np.testing.assert_array_equal(got, model.recommend_fold_in(*want))


def test_columns_without_values_and_numbers_too_large_are_no_features():
    users = np.arange(20)
    some = [["a", "b"][user % 2] for user in users]
    empty = Features(users, categories={"none": [None] * 20})
    with pytest.raises(ValueError, match="AttributeMeans: attributes must have categories with"):
        AttributeMeans().fit(TRAIN, attributes=empty)
    both = Features(users, categories={"none": [None] * 20, "half": some})
    alone = Features(users, categories={"half": some})
    got, want = (AttributeMeans().fit(TRAIN, attributes=each) for each in (both, alone))
    np.testing.assert_array_equal(got.predict(USERS, ITEMS), want.predict(USERS, ITEMS))
    profiles = TfIdf().fit(alone)
    names = profiles.names_
    for bad, sentence in (
        (empty, "must have a word, a category or a number"),
        (Features([1, 2], numbers={"price": [1.0, -1e300]}), "numbers of at most 1e.12 in size"),
    ):
        with pytest.raises(ValueError, match=f"TfIdf: features .*{sentence}"):
            profiles.fit(bad)
        assert profiles.names_ is names

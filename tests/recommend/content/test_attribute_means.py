"""Ratings by attributes: a known world, users without ratings, and dampings by left-out users."""

import numpy as np
import pytest

from sfumato.data import Features, Interactions
from sfumato.recommend import AttributeMeans, DampedMeans, load
from sfumato.recommend.content.damped_effects import (
    NO_EFFECT,
    Membership,
    damped_effects,
    fractions,
    product,
)

USERS, ITEMS, HELD = 240, 30, 60


def world(seed=0, effect=0.8):
    """Ratings whose users of age a like items i with (a + i) even, and dislike the others."""
    random = np.random.default_rng(seed)
    ages, genres = random.integers(2, size=USERS), random.integers(3, size=ITEMS)
    pairs = random.permutation(USERS * ITEMS)[: USERS * 12]
    users, items = np.divmod(pairs, ITEMS)
    signs = np.where((ages[users] + items) % 2, -effect, effect)
    bias = random.normal(0, 0.4, USERS)[users] + random.normal(0, 0.4, ITEMS)[items]
    ratings = 3 + signs + bias + random.normal(0, 0.5, pairs.size)
    data = Interactions(users, items, ratings)
    people = Features(range(USERS), categories={"age": ages, "job": random.integers(5, size=USERS)})
    films = Features(range(ITEMS), categories={"genre": genres})
    return data, people, films


def rmse(model, data):
    return float(np.sqrt(np.mean((model.predict(data.users, data.items) - data.ratings) ** 2)))


DATA, PEOPLE, FILMS = world()
TRAIN, NEW = DATA.filter(DATA.users >= HELD), DATA.filter(DATA.users < HELD)
MODEL = AttributeMeans().fit(TRAIN, attributes=PEOPLE, features=FILMS)


def test_users_without_ratings_are_predicted_by_their_attributes():
    assert rmse(MODEL, NEW) < 0.85 * rmse(DampedMeans().fit(TRAIN), NEW)
    known = TRAIN.split(0.8, 0.2, random_state=0)
    both = [AttributeMeans().fit(known[0], attributes=PEOPLE), DampedMeans().fit(known[0])]
    assert rmse(both[0], known[1]) < 0.85 * rmse(both[1], known[1])


def test_attributes_that_say_nothing_are_damped_away():
    data, people, _ = world(effect=0.0)
    train, new = data.filter(data.users >= HELD), data.filter(data.users < HELD)
    model = AttributeMeans().fit(train, attributes=people)
    assert rmse(model, new) < 1.01 * rmse(DampedMeans().fit(train), new)
    assert MODEL.dampings_["items x age"] < 10 < MODEL.dampings_["items x job"]


def test_terms_add_up_to_the_score_and_name_the_values():
    for user, item in ((3, 4), (200, 5)):
        found = MODEL.explain(user, item, n=1)
        assert len(found["attributes"]) == 1
        parts = [each["part"] for each in found["attributes"]]
        total = found["mean"] + found["item"] + found["user"] + sum(parts) + found["rest"]
        assert found["score"] == pytest.approx(total)
        assert found["prediction"] == pytest.approx(MODEL.predict(user, item)[0])
        assert found["attributes"][0]["attribute"].startswith("age: ")
    assert MODEL.explain(3, 4)["user"] == 0 != MODEL.explain(200, 4)["user"]


def test_lists_are_the_highest_predictions():
    items, scores = MODEL.recommend([3, 200, 999], 4)
    for user, row, mine in zip([3, 200, 999], items, scores, strict=True):
        every = [MODEL.explain(user, item)["score"] for item in range(ITEMS)]
        assert np.allclose(mine, -np.sort(-np.array(every))[:4])
        assert np.allclose(mine, [every[item] for item in row])


def test_unknown_users_get_item_means_and_unknown_items_the_mean_of_all():
    stranger = MODEL.explain(999, 4)
    assert stranger["score"] == pytest.approx(MODEL.mean_ + stranger["item"])
    assert MODEL.explain(999, 999)["score"] == MODEL.mean_
    assert MODEL.explain(3, 999)["score"] == pytest.approx(
        MODEL.mean_ + sum(each["part"] for each in MODEL.explain(3, 999)["attributes"])
    )


def test_a_new_user_shifts_the_item_means_by_a_damped_bias():
    scores = dict(zip(*MODEL.recommend_fold_in([1, 2], [5, 5], n=ITEMS), strict=True))
    base = {item: MODEL.explain(999, item)["score"] for item in range(ITEMS)}
    given = np.clip([5, 5], MODEL.low_, MODEL.high_) - [base[1], base[2]]
    shift = given.sum() / (2 + MODEL.dampings_["users"])
    assert scores == pytest.approx({item: base[item] + shift for item in scores})


def test_items_without_ratings_are_predicted_by_their_features():
    good = Features(range(40), categories={"genre": [n % 2 for n in range(40)]})
    users = np.repeat(np.arange(50), 20)
    items = np.tile(np.arange(20), 50)
    train = Interactions(users, items, 2 + 2.0 * (items % 2))
    people = Features(range(50), categories={"age": ["x"] * 50})
    model = AttributeMeans().fit(train, attributes=people, features=good)
    assert len(model.catalogue_) == 40
    assert model.predict(3, [30, 31]) == pytest.approx([2, 4], abs=0.1)


def test_files_give_the_same_answers_and_damage_is_refused():
    again = load(MODEL.to_bytes())
    assert np.array_equal(again.predict(NEW.users, NEW.items), MODEL.predict(NEW.users, NEW.items))
    assert again.to_bytes() == MODEL.to_bytes()
    assert again.explain(3, 4) == MODEL.explain(3, 4)
    for name in ("item_effects", "deviations", "share_starts", "share_values"):
        arrays = MODEL._learned_arrays()
        arrays[name] = arrays[name][:-1]
        with pytest.raises(ValueError, match="effects must fit users, items"):
            again._restore_learned(arrays)


def test_missing_attributes_are_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"attributes must be given, as fit\(train, attributes="):
        AttributeMeans().fit(TRAIN)
    with pytest.raises(ValueError, match="attributes must have categories"):
        AttributeMeans().fit(TRAIN, attributes=Features(range(USERS), ["text"] * USERS))
    with pytest.raises(ValueError, match="rows of no user of train; their ids are text"):
        AttributeMeans().fit(TRAIN, attributes=Features(["a"], categories={"age": ["x"]}))
    with pytest.raises(ValueError, match="train has no ratings"):
        AttributeMeans().fit(Interactions([1], [2]), attributes=PEOPLE)


def test_effects_are_damped_sums_and_the_damping_is_that_of_left_out_owners():
    random = np.random.default_rng(1)
    groups, owners = random.integers(6, size=300), random.integers(40, size=300)
    residuals = np.array([0, 1, -1, 0.3, 0, 2.0])[groups] + random.normal(0, 1, 300)
    found = damped_effects(Membership.one(groups, 6), residuals, owners)
    sums, counts = np.bincount(groups, residuals), np.bincount(groups)
    assert np.allclose(found.values, sums / (counts + found.damping))

    def error(damping):
        total = 0.0
        for row in range(300):
            other = (groups == groups[row]) & (owners != owners[row])
            total += (residuals[row] - residuals[other].sum() / (other.sum() + damping)) ** 2
        return total

    assert error(found.damping) <= min(error(found.damping * 10), error(found.damping / 10))
    noise = damped_effects(Membership.one(owners, 40), random.normal(0, 1, 300), np.arange(300))
    assert noise.damping > 10
    assert damped_effects(Membership.one(owners, 40), residuals, owners).damping <= NO_EFFECT


def test_rows_of_several_groups_share_them():
    table = fractions(np.array([0, 2, 3, 3]), np.array([0, 1, 1]), 2)
    assert table.toarray().tolist() == [[0.5, 0.5], [0, 1], [0, 0]]
    one = Membership.of(table, np.array([0, 2, 1, 0]))
    assert one.rows.tolist() == [0, 0, 2, 3, 3]
    pairs = product(one, Membership.one(np.array([0, 1, 2, 1]), 3))
    assert pairs.rows.tolist() == [0, 0, 2, 3, 3]
    assert pairs.groups.tolist() == [0, 3, 5, 1, 4]
    assert pairs.shares.tolist() == [0.5, 0.5, 1, 0.5, 0.5]
    both = product(Membership.one(np.array([0, 1, 2, 1]), 3), one)
    assert (both.rows.tolist(), both.groups.tolist()) == ([0, 0, 2, 3, 3], [0, 1, 5, 2, 3])

"""Explanations add up, similar items are nearest by angle, a new user gets a ridge regression."""

import json

import numpy as np
import pytest

from support.recommender_contract import Known, random_world

ITEMS = 90


@pytest.fixture(scope="module")
def world():
    return random_world(40, ITEMS, 8)


@pytest.mark.parametrize("n", [1, 3, 7, 50])
def test_parts_add_up_to_the_score_and_the_score_is_what_is_predicted(world, n):
    for user, item in ((0, 0), (39, 89), (1000, 5)):
        result = world.explain(user, item, n)
        inside = sum(part["part"] for part in result["components"])
        sum_of_parts = (
            result["mean"] + result["user_bias"] + result["item_bias"] + inside + result["rest"]
        )
        assert result["score"] == pytest.approx(sum_of_parts, abs=1e-12)
        assert result["prediction"] == pytest.approx(world.predict(user, item)[0], abs=1e-6)
        assert len(result["components"]) == min(n, 7)
        for part in result["components"]:
            assert part["part"] == part["user"] * part["item"]
        json.dumps(result, allow_nan=False)


def test_the_strongest_components_come_first():
    model = Known.of([[1, -2, 3, 0.5]], [[1, 2, 1, 0.25]], bounds=(0.0, 5.0))
    result = model.explain(0, 0, 2)
    assert [part["component"] for part in result["components"]] == [1, 2]
    assert [part["part"] for part in result["components"]] == [-4.0, 3.0]
    assert (result["rest"], result["user_bias"], result["item_bias"]) == (1.0, 0.5, 0.25)
    assert result["score"] == result["prediction"] == 3.75


def test_a_score_outside_the_bounds_is_reported_beside_the_prediction():
    result = Known.of([[2, 0]], [[4, 0]]).explain(0, 0)
    assert (result["score"], result["prediction"]) == (11.0, 5.0)
    assert result["similar"] == []


def test_a_model_of_biases_alone_answers_too():
    model = Known.of([[0.5]], [[0.25], [1.0], [-1.0]])
    assert model.predict(0, [0, 1, 2]).tolist() == [3.75, 4.5, 2.5]
    assert model.recommend(0)[0].tolist() == [1, 0, 2]
    result = model.explain(0, 0)
    assert (result["components"], result["score"]) == ([], 3.75)
    assert result["similar"] == [(1, 0.0), (2, 0.0)]
    assert model.recommend_fold_in([0], [5])[0].tolist() == [1, 2]


def test_explain_takes_one_pair(world):
    with pytest.raises(ValueError, match="explain takes one user and one item"):
        world.explain([0, 1], [0, 1])


@pytest.mark.parametrize("n", [1, 10, 89, 300])
def test_similar_items_are_those_of_the_largest_cosines(world, n):
    queries = np.array([4, 88, 4])
    units = world.items_[:, :-1].astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = units[queries] @ units.T
    cosines[np.arange(3), queries] = -np.inf
    items, got = world.similar_items(queries, n)
    retained = min(n, ITEMS - 1)
    order = np.argsort(-cosines, axis=1)[:, :retained]
    np.testing.assert_array_equal(items[:, :retained], order)
    np.testing.assert_allclose(got[:, :retained], np.take_along_axis(cosines, order, 1), atol=1e-6)
    assert (got[:, retained:] == -np.inf).all()
    one, _ = world.similar_items(4, n)
    np.testing.assert_array_equal(one, items[0, :retained])


def test_popularity_plays_no_part_in_similarity():
    model = Known.of(np.zeros((1, 3)), [[1, 0, 0], [2, 0.1, -9], [0, 1, 9], [0, 0, 5]])
    items, cosines = model.similar_items(0)
    assert items.tolist() == [1, 2, 3]
    np.testing.assert_allclose(cosines, [1 / np.sqrt(1 + 0.05**2), 0, 0], atol=1e-6)


def test_an_item_outside_the_catalogue_is_compared_too(world):
    items, cosines = world.similar_items([12345], 3)
    assert items.shape == (1, 3)
    assert (cosines == 0).all()


def test_a_new_user_solves_the_stated_ridge_regression(world):
    listed, ratings, ridge = np.array([3, 50, 7, 8]), np.array([5.0, 1, 4, 9]), 0.7
    q = world.items_.astype(np.float64)
    design = np.column_stack([q[listed, :-1], np.ones(4)])
    result = np.minimum(ratings, 5) - 3 - q[listed, -1]
    # The same minimum by least squares on rows of sqrt(ridge) below the data.
    stacked = np.vstack([design, np.sqrt(ridge) * np.eye(8)])
    p = np.linalg.lstsq(stacked, np.r_[result, np.zeros(8)], rcond=None)[0]
    scores = 3 + q[:, :-1] @ p[:-1] + q[:, -1] + p[-1]
    scores[listed] = -np.inf
    items, got = world.recommend_fold_in(listed, ratings, n=20, ridge=ridge)
    order = np.argsort(-scores)[:20]
    np.testing.assert_array_equal(items, order)
    np.testing.assert_allclose(got, scores[order], atol=1e-5)


def test_a_new_user_without_ratings_likes_what_is_listed():
    # Items 0 to 3 point one way, 4 to 7 the other; the biases say nothing.
    side = np.repeat([1.0, -1.0], 4)
    model = Known.of(np.zeros((1, 3)), np.column_stack([side, side, np.zeros(8)]))
    items, scores = model.recommend_fold_in([1, 2], n=8)
    assert items.tolist() == [0, 3, 4, 5, 6, 7]
    # p = (a, a) with (X'X + 4) p = X'r, r = 5 - 3: a (2 * 2 + 4) = 4, and p.q = 2 a.
    np.testing.assert_allclose(scores[:2], 3 + 1, atol=1e-6)
    np.testing.assert_allclose(scores[2:], 3 - 1, atol=1e-6)


def test_a_new_user_obeys_the_filter_and_takes_one_item(world):
    mask = np.arange(ITEMS) < 5
    items, _ = world.recommend_fold_in(2, n=10, filter=mask)
    assert set(items.tolist()) == {0, 1, 3, 4}
    assert mask.sum() == 5


def test_a_new_user_without_items_gets_the_order_of_biases(world):
    items, scores = world.recommend_fold_in([], n=4)
    order = np.argsort(-world.items_[:, -1])[:4]
    np.testing.assert_array_equal(items, order)
    np.testing.assert_allclose(scores, 3 + world.items_[order, -1], atol=1e-6)


@pytest.mark.parametrize("ratings", [[1], [1, 2, 3], [1, np.nan], [np.inf, 2], "ab", [None, 1]])
def test_ratings_of_a_new_user_are_one_finite_number_per_item(world, ratings):
    with pytest.raises(ValueError, match="ratings must be 2 finite numbers, one per item"):
        world.recommend_fold_in([1, 2], ratings)


@pytest.mark.parametrize("ridge", [0, -1, np.nan, "much"])
def test_ridge_is_above_zero(world, ridge):
    with pytest.raises(ValueError, match="ridge must be a finite number above 0"):
        world.recommend_fold_in([1], ridge=ridge)

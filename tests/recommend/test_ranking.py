"""Recommendations are the best of the catalogue, less what is excluded or filtered out."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import metrics, ranking
from support.recommender_contract import Known, random_world

USERS, ITEMS = 60, 133


@pytest.fixture(scope="module")
def world():
    return random_world(USERS, ITEMS, 8)


def scores_of(model, users):
    p = np.where((users < USERS)[:, None], model.users_[users % USERS], 0).astype(np.float64)
    q = model.items_.astype(np.float64)
    return model.mean_ + p[:, :-1] @ q[:, :-1].T + p[:, -1:] + q[:, -1]


def expected(scores, n):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(best > -np.inf, order, -1), best


@pytest.mark.parametrize("n", [1, 10, 132, 133])
def test_recommend_is_the_head_of_the_sorted_scores(world, n):
    users = np.array([5, 0, 59, 5, 1000])
    items, scores = world.recommend(users, n)
    want_items, want_scores = expected(scores_of(world, users), n)
    np.testing.assert_array_equal(items, want_items)
    np.testing.assert_allclose(scores, want_scores, atol=1e-6)


def test_long_lists_are_sorted_equally(monkeypatch, world):
    users = np.arange(USERS)
    short = world.recommend(users, 40)
    monkeypatch.setattr(ranking, "LONG", 2)
    for got, want in zip(world.recommend(users, 40), short, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_list_does_not_depend_on_the_other_users_of_the_call(world):
    users = np.arange(USERS)
    items, scores = world.recommend(users, 10)
    for user in (0, 3, 17, 59):
        one_items, one_scores = world.recommend(user, 10)
        np.testing.assert_array_equal(one_items, items[user])
        np.testing.assert_array_equal(one_scores, scores[user])


def test_batches_change_nothing(monkeypatch, world):
    users = np.arange(USERS)
    best, _ = world.recommend(users, 3)
    observed = Interactions(np.repeat(users, 3), best.ravel(), np.ones(3 * USERS))
    want = world.recommend(users, 5, exclude=observed)
    monkeypatch.setattr(ranking, "ROOM", 1)
    for got, retained in zip(world.recommend(users, 5, exclude=observed), want, strict=True):
        np.testing.assert_array_equal(got, retained)
    assert not (want[0][:, :, None] == best[:, None, :]).any()


def test_equal_scores_stand_in_the_order_of_the_catalogue():
    model = Known.of(np.zeros((1, 3)), np.zeros((70, 3)), ids=np.arange(70)[::-1] + 5)
    items, _ = model.recommend(0, 4)
    np.testing.assert_array_equal(items, [74, 73, 72, 71])


@pytest.mark.parametrize(("n", "long"), [(10, 256), (133, 256), (10, 2)])
def test_excluded_items_of_a_user_are_left_out_for_that_user_alone(monkeypatch, world, n, long):
    monkeypatch.setattr(ranking, "LONG", long)
    rng = np.random.default_rng(8)
    who, what = rng.integers(0, 70, 2000), rng.integers(0, 150, 2000)  # some known to nobody
    users = np.array([7, 3, 7, 65, 999])
    scores = scores_of(world, users)
    for row, user in enumerate(users):
        mine = what[who == user]
        scores[row, mine[mine < ITEMS]] = -np.inf
    items, got = world.recommend(users, n, exclude=Interactions(who, what, np.ones(2000)))
    want_items, want_scores = expected(scores, n)
    np.testing.assert_array_equal(items, want_items)
    np.testing.assert_allclose(got, want_scores, atol=1e-6)


def test_filter_keeps_only_what_it_allows(world):
    mask = np.arange(ITEMS) % 7 == 3
    items, scores = world.recommend([4, 5], 25, filter=mask)
    assert (items[:, : mask.sum()] % 7 == 3).all()
    np.testing.assert_array_equal(scores[:, mask.sum() :], -np.inf)
    np.testing.assert_array_equal(items[:, mask.sum() :], -1)
    want = np.where(mask, scores_of(world, np.array([4, 5])), -np.inf)
    np.testing.assert_array_equal(items, expected(want, 25)[0])


def test_one_user_gets_what_is_left_and_a_column_gets_filled_up(world):
    observed = Interactions(np.full(ITEMS - 3, 9), np.arange(3, ITEMS), np.ones(ITEMS - 3))
    items, scores = world.recommend(9, 10, exclude=observed)
    assert items.shape == scores.shape == (3,)
    assert set(items.tolist()) == {0, 1, 2}
    items, scores = world.recommend([9], 200, exclude=observed)
    assert items.shape == scores.shape == (1, 200)
    assert np.isfinite(scores[0]).sum() == 3
    items, scores = world.recommend(9, 200, filter=np.zeros(ITEMS, bool))
    assert items.size == scores.size == 0
    assert world.recommend([], 4)[0].shape == (0, 4)


def test_items_with_texts_as_ids_come_back_as_texts():
    vectors = np.diag([3.0, 1.0, 2.0])
    vectors[:, -1] = [0.3, 0.1, 0.2]
    model = Known.of(np.zeros((1, 3)), vectors, ids=["tea", "rum", "milk"])
    items, scores = model.recommend([0], 5, exclude=Interactions([0], ["tea"], [5]))
    assert items.tolist() == [["milk", "rum", None, None, None]]
    np.testing.assert_allclose(scores[0, :2], [3.2, 3.1])


def test_ids_of_another_kind_are_refused_where_nothing_would_be_left_out(world):
    with pytest.raises(TypeError, match="users of exclude are text, but integers"):
        world.recommend([1], exclude=Interactions(["1"], [2], [3]))
    with pytest.raises(TypeError, match="items of exclude are text, but integers"):
        world.recommend([1], exclude=Interactions([1], ["2"], [3]))
    with pytest.raises(TypeError, match="exclude must be Interactions of items to leave"):
        world.recommend([1], exclude=[2])


@pytest.mark.parametrize(
    "mask", [np.ones(3, bool), np.ones(ITEMS), "all", np.ones((ITEMS, 1), bool)]
)
def test_filter_of_another_shape_is_refused(world, mask):
    with pytest.raises(ValueError, match="filter must be a boolean mask with 133 entries"):
        world.recommend([1], filter=mask)


@pytest.mark.parametrize("n", [0, -1, 2.5, "ten", True, None])
def test_n_must_be_a_whole_number_from_1_up(world, n):
    with pytest.raises(ValueError, match="Known: n must be an integer from 1 up"):
        world.recommend([1], n)


def test_what_was_learned_since_is_ranked(world):
    model = random_world(3, 40, 4)
    model.recommend(0)
    model.items_ = -model.items_
    model._changed()
    items, _ = model.recommend(0, 5)
    np.testing.assert_array_equal(items, expected(scores_of_small(model), 5)[0][0])


def scores_of_small(model):
    q = model.items_.astype(np.float64)
    p = model.users_[:1].astype(np.float64)
    return p[:, :-1] @ q[:, :-1].T + q[:, -1]


def test_a_place_without_an_item_is_no_item_and_counts_as_none():
    # Item 0 is excluded and relevant: a list that is filled up with it would be right by accident.
    model = Known.of(np.zeros((2, 3)), np.zeros((3, 3)))
    observed = Interactions([0, 0, 1], [0, 1, 0], [1.0, 1.0, 1.0])
    items, scores = model.recommend([0, 1], 3, exclude=observed)
    assert items.tolist() == [[2, -1, -1], [1, 2, -1]]
    right = ([0, 1], [0, 0])
    without, result = metrics.ranked(items, right), metrics.ranked(items, right, scores=scores)
    assert without == result
    assert {without[name] for name in ("precision", "recall", "ndcg", "mrr", "hit_rate")} == {0.0}
    found = metrics.ranked(items, ([0, 1], [2, 2]))
    assert (found["precision"], found["recall"]) == (0.75, 1.0)
    catalogue = model.catalogue_.ids
    assert (
        metrics.coverage(items, catalogue)
        == metrics.coverage(items, catalogue, scores=scores)
        == 2 / 3
    )
    assert metrics.novelty(items, catalogue, [1, 1, 1], 2) == 1.0
    assert metrics.diversity(items, catalogue, np.eye(3)) == 1.0
    texts = np.array([["tea", "", ""]], object)  # as lists were filled before
    assert metrics.precision(texts, ([0], ["tea"])) == 1.0
    assert metrics.recall(texts.astype(str), ([0, 0], ["tea", ""])) == 0.5
    # Where -1 is an item, scores say which slots contain it.
    assert metrics.recall([[-1, -1]], ([0], [-1]), scores=[[1.0, -np.inf]]) == 1.0


def test_blocks_of_rows_cover_a_table_within_the_room():
    assert list(ranking.row_blocks(5, 3, 7)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(ranking.row_blocks(2, 9, 7)) == [slice(0, 1), slice(1, 2)]
    assert not list(ranking.row_blocks(0, 3))

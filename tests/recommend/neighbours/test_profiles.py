"""Raw profiles return exactly what brute force over sets and ratings does."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import RawProfiles

USERS, ITEMS = 80, 30


def world(seed=3, rows=700):
    """Few items, so that many users are equally similar, and many rows come twice."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(USERS, size=rows) + 500, rng.integers(ITEMS, size=rows)
    return Interactions(users, items, rng.integers(1, 6, rows).astype(float))


RATINGS = world()
RAW = RawProfiles(RATINGS)


def sets(interactions=RATINGS):
    """Each user's items with the last rating of each, users in order of first appearance."""
    result = {user: {} for user in interactions.users.tolist()}
    for user, item, rating in zip(
        interactions.users.tolist(),
        interactions.items.tolist(),
        interactions.ratings.tolist(),
        strict=True,
    ):
        result[user][item] = rating
    return list(result.values())


def correlation(one, other, common):
    x, y = (np.array([each[item] for item in common]) for each in (one, other))
    return np.corrcoef(x, y)[0, 1] if np.ptp(x) and np.ptp(y) else None


def similarity(one, other, metric, least=1):
    """The similarity of two profiles, None for who cannot be neighbours."""
    common = sorted(one.keys() & other.keys())
    if len(common) < max(least, 2 if metric == "pearson" else 1):
        return None
    if metric == "pearson":
        return correlation(one, other, common)
    if metric == "cosine":
        return len(common) / np.sqrt(len(one) * len(other))
    return len(common) / len(one.keys() | other.keys()) if metric == "jaccard" else len(common)


def brute(metric, least=1, profiles=None):
    profiles = sets() if profiles is None else profiles
    out = np.full((len(profiles), len(profiles)), -np.inf)
    for u, one in enumerate(profiles):
        for v, other in enumerate(profiles):
            value = None if u == v else similarity(one, other, metric, least)
            out[u, v] = -np.inf if value is None else value
    return out


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("n", [1, 5, 79, 100])
@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
def test_nearest_rows_are_those_of_brute_force_ties_in_order(metric, n, least):
    every = brute(metric, least)
    found, near = RawProfiles(RATINGS, least_common=least).nearest_rows(
        np.arange(USERS), n, metric=metric
    )
    order = np.argsort(-every, axis=1, kind="stable")[:, :n]
    want = np.take_along_axis(every, order, axis=1)
    np.testing.assert_array_equal(near[:, : order.shape[1]], want)
    np.testing.assert_array_equal(found[:, : order.shape[1]], np.where(want > -np.inf, order, -1))
    assert (found[:, order.shape[1] :] == -1).all()
    assert found.shape == near.shape == (USERS, n)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_pearson_is_the_correlation_over_common_items(shift):
    # Far from 0, sums of plain squares would have lost the differences.
    observed = Interactions(RATINGS.users, RATINGS.items, RATINGS.ratings + shift)
    every = brute("pearson", 4)
    rows = np.arange(USERS)
    found, near = RawProfiles(observed, least_common=4).nearest_rows(rows, 79, metric="pearson")
    np.testing.assert_allclose(near, -np.sort(-every, axis=1)[:, :79], atol=1e-6)
    result = found >= 0
    np.testing.assert_allclose(every[rows[:, None], found][result], near[result], atol=1e-6)
    assert (near[result] < 0).any()
    assert all(len({*row[row >= 0].tolist()}) == (row >= 0).sum() for row in found)


def test_pearson_needs_two_common_items_that_both_rated_differently():
    users = np.repeat([1, 2, 3, 4], [3, 2, 3, 3])
    items = [1, 2, 3, 1, 9, 1, 2, 8, 1, 2, 3]
    ratings = [5, 1, 2, 5, 1, 4, 4, 1, 1, 5, 4]
    raw = RawProfiles(Interactions(users, items, ratings))
    found, near = raw.nearest_rows([0], 3, metric="pearson")
    assert found.tolist() == [[3, -1, -1]]  # 2 has one item in common, 3 rated both the same
    assert near[0, 0] == pytest.approx(np.corrcoef([5, 1, 2], [1, 5, 4])[0, 1])


def test_who_rates_all_common_items_equally_has_no_correlation_whatever_rounding_leaves():
    rng = np.random.default_rng(5)
    sizes = rng.integers(3, 9, 200)  # items that each has in common with user 0, and one more
    users = np.r_[np.zeros(9, int), np.repeat(np.arange(1, 201), sizes + 1)]
    items = np.concatenate([np.arange(9), *(np.r_[np.arange(size), 99] for size in sizes)])
    flat, other = rng.random(200), rng.random(200)
    result = [np.r_[np.full(n, r), q] for n, r, q in zip(sizes, flat, other, strict=True)]
    raw = RawProfiles(Interactions(users, items, np.concatenate([rng.random(9), *result])))
    assert (raw.nearest_rows([0], 5, metric="pearson")[0] == -1).all()


def test_a_repeated_pair_counts_once_with_its_last_rating():
    observed = Interactions([1, 1, 1, 2, 2], [7, 7, 8, 7, 7], [1, 5, 2, 3, 4])
    raw = RawProfiles(observed)
    assert raw.estimate_size().tolist() == [2, 1]
    assert raw.nearest_rows([0], 1, metric="inner")[1].tolist() == [[1.0]]
    assert raw.interactions.ratings.tolist() == [5, 2, 4]
    assert raw.interactions.items.tolist() == [7, 8, 7]
    assert raw.memberships([7, 8, 9, 7]).tolist() == [[1, 1, 0, 1], [1, 0, 0, 1]]


def test_users_with_nothing_in_common_are_no_neighbours():
    raw = RawProfiles(Interactions(["a", "b", "c"], ["x", "y", "x"], [1, 1, 1]))
    found, near = raw.nearest_rows([0, 1], 2)
    assert found.tolist() == [[2, -1], [-1, -1]]
    assert near.tolist() == [[1.0, -np.inf], [-np.inf, -np.inf]]


@pytest.mark.parametrize("metric", ["cosine", "pearson"])
def test_threads_tell_the_same(metric):
    one = RAW.nearest_rows(np.arange(USERS)[::-1], 9, metric=metric)
    many = RawProfiles(RATINGS, threads=3).nearest_rows(np.arange(USERS)[::-1], 9, metric=metric)
    np.testing.assert_array_equal(one[0], many[0])
    np.testing.assert_array_equal(one[1], many[1])
    assert RawProfiles(RATINGS, threads=3).nearest_rows([], 4)[0].shape == (0, 4)


@pytest.mark.parametrize("metric", ["cosine", "jaccard", "inner"])
def test_a_new_user_is_compared_like_a_user(metric):
    new_user = dict.fromkeys([3, 4, 5, 11, 999, 1000])  # the last two are nobody's, and count
    want = [similarity(new_user, other, metric) for other in sets()]
    want = np.array([-np.inf if each is None else each for each in want])
    found, near = RAW.nearest_to([3, 999, 4, 5, 11, 1000, 4], 20, metric=metric)
    order = np.argsort(-want, kind="stable")[:20]
    assert found.tolist() == [order.tolist()]
    assert near.tolist() == [want[order].tolist()]


def test_sums_are_weighted_memberships():
    rng = np.random.default_rng(1)
    rows, weights = rng.integers(-1, USERS, (9, 6)), rng.random((9, 6))
    items = np.array([4, 99, 0, 4, 29])
    result = RAW.memberships(items)
    exact = np.array([[item in each for item in items] for each in sets()], float)
    np.testing.assert_array_equal(result, exact)
    want = (np.where(rows >= 0, weights, 0)[..., None] * result[rows]).sum(axis=1)
    np.testing.assert_allclose(RAW.sums(rows, weights, items), want)
    rated = np.array([[each.get(item, 0) for item in items.tolist()] for each in sets()])
    want = (np.where(rows >= 0, weights, 0)[..., None] * rated[rows]).sum(axis=1)
    got = RAW.sums(rows, weights, items, RAW.interactions.ratings)
    np.testing.assert_allclose(got, want)


def test_it_says_that_it_holds_histories():
    assert "whole histories, not private" in repr(RAW)
    assert RAW.nbytes > 8 * RAW._ratings.size
    assert len(RAW) == USERS
    assert not hasattr(RAW, "statement")


def test_invalid_queries_are_refused_in_a_sentence():
    for ask, kind, words in (
        (lambda: RawProfiles([1, 2]), TypeError, "interactions must be Interactions, not list"),
        (lambda: RawProfiles(RATINGS.filter([])), ValueError, "at least one row"),
        (lambda: RawProfiles(RATINGS, least_common=0), ValueError, "least_common must be"),
        (lambda: RawProfiles(RATINGS, threads=0), ValueError, "threads must be"),
        (lambda: RAW.nearest_rows([0], 0), ValueError, "n must be"),
        (lambda: RAW.nearest_rows([0], metric="dice"), ValueError, "metric must be one of"),
        (lambda: RAW.nearest_rows([3, 80]), ValueError, "position 1 is not"),
        (lambda: RAW.nearest_rows([-1]), ValueError, "rows must be from 0 to 79"),
        (lambda: RAW.nearest_rows([0.5]), TypeError, "integers"),
        (lambda: RAW.nearest_to([3], metric="pearson"), ValueError, "without ratings"),
    ):
        with pytest.raises(kind, match=words):
            ask()

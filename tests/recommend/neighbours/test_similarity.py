"""Similarities of rows of ratings are those of their definitions, pair by pair."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import RatingNeighbours
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.neighbours.rating_neighbourhood import rating_vectors
from sfumato.recommend.neighbours.similarity import METRICS, RatingVectors, SimilarityRule
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows

USERS, ITEMS = 30, 18
PLAIN = {"shrinkage": 0.0, "significance": 1, "min_overlap": 1}


def world(seed=4):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((USERS, ITEMS)) < 0.4, rng.integers(1, 6, (USERS, ITEMS)), np.nan)
    table[:, -1] = np.nan  # an item that nobody rated
    users, items = np.nonzero(~np.isnan(table))
    rows = RatedRows.of(
        Interactions(users, items, table[users, items]), Catalogue(np.arange(ITEMS))
    )
    return table, rows, Baseline.of(rows)


TABLE, ROWS, BASELINE = world()
RESIDUALS = TABLE - BASELINE.at(np.arange(USERS)[:, None], np.arange(ITEMS))


def brute(x, y, metric, residuals):
    """The similarity of two rows with NaN for missing ratings; None where there is none."""
    common = ~np.isnan(x) & ~np.isnan(y)
    if not common.any():
        return None
    if metric == "jaccard":
        return common.sum() / (~np.isnan(x) | ~np.isnan(y)).sum()
    if metric == "pearson":
        a, b = x[common], y[common]
        return np.corrcoef(a, b)[0, 1] if np.ptp(a) and np.ptp(b) else None
    if metric == "centred":
        x, y = x - np.nanmean(x), y - np.nanmean(y)
    if metric == "residual":
        x, y = residuals
    x, y = np.nan_to_num(x), np.nan_to_num(y)
    return x @ y / np.sqrt(x @ x * (y @ y)) if x.any() and y.any() else None


def expected(by, metric, least=1, shrinkage=0.0, significance=1):
    table, residuals = (TABLE, RESIDUALS) if by == "users" else (TABLE.T, RESIDUALS.T)
    out = np.zeros((len(table), len(table)))
    for u, x in enumerate(table):
        for v, y in enumerate(table):
            n = int((~np.isnan(x) & ~np.isnan(y)).sum())
            if u != v and n >= least:
                found = brute(x, y, metric, (residuals[u], residuals[v]))
                shrunk = n / (n + shrinkage) * min(n, significance) / significance
                out[u, v] = max(0.0 if found is None else found * shrunk, 0.0)
    return out


def dense(lists, size):
    out = np.zeros((lists.ends.size - 1, size))
    for row in range(len(out)):
        mine = slice(lists.ends[row], lists.ends[row + 1])
        assert (np.diff(lists.values[mine]) <= 0).all()
        out[row, lists.columns[mine]] = lists.values[mine]
    return out


def vectors(by, metric, **rule):
    return rating_vectors(ROWS, BASELINE, {**PLAIN, "by": by, "metric": metric, **rule})


@pytest.mark.parametrize("by", ["items", "users"])
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_its_definition_for_every_pair(by, metric):
    made = vectors(by, metric)
    found = dense(made.all_nearest(99, "exact", 0), len(made))
    np.testing.assert_allclose(found, expected(by, metric), atol=2e-6)
    assert (found > 0).sum() > 100


@pytest.mark.parametrize("metric", ["centred", "pearson"])
def test_overlap_shrinkage_and_significance_multiply_similarities(metric):
    rule = {"min_overlap": 3, "shrinkage": 2.5, "significance": 5}
    made = vectors("users", metric, **rule)
    want = expected("users", metric, 3, 2.5, 5)
    np.testing.assert_allclose(dense(made.all_nearest(99, "exact", 0), USERS), want, atol=2e-6)
    assert 0 < (want > 0).sum() < (expected("users", metric) > 0).sum()


def test_two_rows_of_two_common_ratings_by_hand():
    # Common columns 0 and 1: x = (4, 2, 3), y = (5, 1, -, 3); both have mean 3.
    starts, positions = np.array([0, 3, 6]), np.array([0, 1, 2, 0, 1, 3], np.int32)
    ratings = np.array([4, 2, 3, 5, 1, 3], np.float32)
    for metric, similarity in (
        ("jaccard", 2 / 4),
        ("cosine", 22 / np.sqrt(29 * 35)),
        ("centred", 4 / np.sqrt(2 * 8)),
        ("pearson", 1.0),
    ):
        for least, shrinkage, significance, factor in (
            (1, 0, 1, 1),
            (2, 6, 1, 2 / 8),
            (1, 0, 8, 2 / 8),
            (2, 2, 4, 1 / 4),
            (3, 0, 1, 0),
        ):
            rule = SimilarityRule(metric, least, float(shrinkage), float(significance))
            values = rule.values(starts, ratings, None)
            lists = RatingVectors(rule, starts, positions, values, 4).all_nearest(5, "exact", 0)
            want = [similarity * factor] * 2 if factor else []
            assert lists.values.tolist() == pytest.approx(want)


def test_only_as_many_as_wanted_are_listed_the_most_similar():
    every = dense(vectors("users", "cosine").all_nearest(99, "exact", 0), USERS)
    few = dense(vectors("users", "cosine").all_nearest(4, "exact", 0), USERS)
    for row, short in zip(every, few, strict=True):
        assert np.sort(short[short > 0]).tolist() == np.sort(row)[-4:].tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_hashed_neighbours_have_exact_similarities_and_repeat(metric):
    made = vectors("users", metric)
    every = dense(made.all_nearest(99, "exact", 0), USERS)
    found = dense(made.all_nearest(99, "lsh", 7), USERS)
    assert ((found == 0) | (np.abs(found - every) < 2e-6)).all()
    assert 0.15 < (found > 0).sum() / (every > 0).sum() <= 1
    np.testing.assert_array_equal(found, dense(made.all_nearest(99, "lsh", 7), USERS))


def test_a_further_row_is_compared_like_a_row():
    made = vectors("users", "centred")
    own = slice(ROWS.starts[3], ROWS.starts[4])
    found = made.nearest_to(ROWS.positions[own], made.values[own], USERS)
    listed = dict(zip(found.columns.tolist(), found.values.tolist(), strict=True))
    assert listed.pop(3) == pytest.approx(1.0)
    twin = dense(made.all_nearest(99, "exact", 0), USERS)[3]
    assert listed == pytest.approx({at: twin[at] for at in np.flatnonzero(twin)})


def test_a_rule_has_the_parameters_of_its_model():
    model = RatingNeighbours(metric="pearson", min_overlap=3, shrinkage=7, significance=9)
    assert SimilarityRule.of(model.get_params()) == ("pearson", 3, 7.0, 9.0)

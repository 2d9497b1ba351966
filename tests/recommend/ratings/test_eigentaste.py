"""Eigentaste: cells of the plane by hand, coordinates against dense NumPy, and new users."""

import numpy as np
import pytest

from sfumato.data import generate_world
from sfumato.recommend import DampedMeans, Eigentaste, ModelFormatError, load
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.eigentaste import _cells_of
from sfumato.recommend.ratings.rated_rows import RatedRows
from support.recommender_contract import checkerboard, rmse

WORLD = generate_world(users=80, items=40, ratings=1500, random_state=2).interactions
EDGES = np.array([[-8.0, 8.0], [-4.0, 16.0]])


def cell(x, y, levels=4):
    return int(_cells_of(np.array([[x, y]]), EDGES, levels)[0])


def test_the_cells_are_nested_rectangles_around_the_origin():
    assert [cell(-1, -1, 1), cell(1, -1, 1), cell(-1, 1, 1), cell(1, 1, 1)] == [0, 1, 2, 3]
    # Upper right quadrant of 8 by 16 at four levels: cells 30 to 39.
    assert [cell(5, 1), cell(1, 9), cell(5, 9)] == [30, 31, 32]
    assert [cell(3, 1), cell(1, 5), cell(3, 5)] == [33, 34, 35]
    assert [cell(1.5, 1), cell(0.5, 3), cell(1.5, 3), cell(0.5, 1)] == [36, 37, 38, 39]
    assert cell(-5, -3) == 2
    assert cell(100, 100) == 32  # beyond all training users
    everywhere = np.random.default_rng(0).uniform(-1, 1, (20_000, 2)) * [8, 4]
    for levels in (1, 2, 3, 4):
        found = _cells_of(everywhere, np.array([[-8.0, 8.0], [-4.0, 4.0]]), levels)
        assert set(found.tolist()) == set(range(4 * (3 * levels - 2)))


def test_users_are_placed_by_two_principal_components_of_the_most_rated_items():
    model = Eigentaste(gauge=9, levels=2, damping=3.0, bounds=(-9, 9)).fit(WORLD)
    rows = RatedRows.of(WORLD, model.catalogue_)
    matrix, base = np.full((len(rows.users), rows.items), np.nan), Baseline.of(rows)
    matrix[rows.user_rows, rows.positions] = base.residuals(rows)
    counts = (~np.isnan(matrix)).sum(0)
    assert counts[model._gauge].min() >= np.delete(counts, model._gauge).max()
    given = np.nan_to_num(matrix[:, model._gauge])
    axes = np.linalg.svd(given, full_matrices=False)[2][:2].T
    np.testing.assert_allclose(np.abs(model._axes), np.abs(axes), atol=1e-4)
    points = given @ model._axes
    np.testing.assert_allclose(model._edges.T, [points.min(0), points.max(0)], atol=1e-4)
    want = base.mean + base.users[:, None] + base.items
    for number in np.unique(model._clusters[model._clusters >= 0]):
        own = model._clusters == number
        rated = (~np.isnan(matrix[own])).sum(0)
        want[own] += np.nansum(matrix[own], axis=0) / (rated + 3.0)
    users, items = model.users_.ids, model.catalogue_.ids
    got = model.predict(np.repeat(users, items.size), np.tile(items, users.size))
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=1e-5)


def test_a_new_user_is_placed_as_a_known_one_with_the_same_ratings():
    model = Eigentaste(gauge=9, damping=3.0).fit(WORLD)
    rows = RatedRows.of(WORLD, model.catalogue_)
    known = model._table(np.arange(len(rows.users)))
    for user in range(len(rows.users)):
        part = slice(rows.starts[user], rows.starts[user + 1])
        got = model._folded_in(rows.positions[part], rows.ratings[part].astype(float))
        np.testing.assert_allclose(got, known[user], atol=1e-5)


def test_who_rated_nothing_of_the_gauge_set_is_in_no_cell():
    train = checkerboard()
    without = (train.users == 103) & (train.items < 504)
    model = Eigentaste(gauge=[503, 500], damping=1.0).fit(train.filter(~without))
    assert model._clusters.tolist().count(-1) == 1
    assert model.explain(103, 510)["cluster"] == 0
    assert model.explain(104, 510)["cluster"] > 1
    items, _ = model.recommend_fold_in([500, 503], [5.0, 1.0], n=7)
    assert (items % 2 == 0).all()
    plain = model.recommend_fold_in([510], [4.0], n=16)[1]
    assert np.ptp(plain) < 0.5


def test_a_gauge_set_that_is_not_in_the_data_is_refused():
    train = checkerboard()
    with pytest.raises(ValueError, match="gauge must be items of train"):
        Eigentaste(gauge=[500, 7]).fit(train)
    with pytest.raises(TypeError, match="gauge are text, but the model knows integers"):
        Eigentaste(gauge=["tea"]).fit(train)
    model = Eigentaste(gauge=np.array([501, 500])).fit(train)
    assert load(model.to_bytes()).get_params()["gauge"] == [501, 500]


def test_it_is_better_than_means_where_ratings_are_many_and_where_they_are_few():
    for ratings in (60_000, 9000):
        world = generate_world(users=1500, items=500, ratings=ratings, random_state=3)
        train, test = world.interactions.split(0.8, 0.2, random_state=0)
        assert rmse(Eigentaste().fit(train), test) < rmse(DampedMeans().fit(train), test)


@pytest.mark.parametrize("damage", ["gauge", "cells"])
def test_a_damaged_file_is_refused(damage):
    model = Eigentaste(gauge=3).fit(WORLD)
    if damage == "gauge":
        model._gauge = model._gauge[::-1].copy()
    else:
        model._deviations = np.vstack([model._deviations, model._deviations[:1]])
    with pytest.raises(ModelFormatError):
        load(model.to_bytes())

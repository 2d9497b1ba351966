"""Cluster means: k-means against plain loops, and what a cluster says of an item."""

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.recommend import ClusterMeans, DampedMeans, ModelFormatError, load
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows
from support.recommender_contract import checkerboard, rmse

WORLD = generate_world(users=80, items=40, ratings=1500, random_state=2).interactions


def residuals(model, train=WORLD):
    """Residuals of the baseline as a matrix, NaN where missing, and the baseline."""
    rows = RatedRows.of(train, model.catalogue_)
    matrix, base = np.full((len(rows.users), rows.items), np.nan), Baseline.of(rows)
    matrix[rows.user_rows, rows.positions] = base.residuals(rows)
    return matrix, base.mean + base.users[:, None] + base.items


def test_a_prediction_is_the_baseline_and_the_damped_mean_of_the_cluster():
    model = ClusterMeans(clusters=4, damping=3.0, bounds=(-9, 9)).fit(WORLD)
    matrix, want = residuals(model)
    for cluster in range(4):
        own = model._clusters == cluster
        assert own.any()
        counts = (~np.isnan(matrix[own])).sum(0)
        want[own] += np.nansum(matrix[own], axis=0) / (counts + 3.0)
    users, items = model.users_.ids, model.catalogue_.ids
    got = model.predict(np.repeat(users, items.size), np.tile(items, users.size))
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=1e-5)


def test_users_are_in_the_cluster_with_the_nearest_centroid_its_mean_direction():
    model = ClusterMeans(clusters=4, damping=3.0, iterations=1000).fit(WORLD)
    unit = np.nan_to_num(residuals(model)[0])
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    for cluster in range(4):
        mean = unit[model._clusters == cluster].sum(0)
        np.testing.assert_allclose(
            model._centroids[cluster], mean / np.linalg.norm(mean), atol=1e-5
        )
    np.testing.assert_array_equal((unit @ model._centroids.T).argmax(1), model._clusters)


def test_it_finds_two_kinds_of_users_and_places_a_new_one():
    train = checkerboard()
    model = ClusterMeans(clusters=2, damping=1.0).fit(train)
    even = model.users_.ids % 2 == 0
    assert set(model._clusters[even]) == {model._clusters[0]}
    assert set(model._clusters[~even]) == {1 - model._clusters[0]}
    items, _ = model.recommend_fold_in([500, 501, 503], [5.0, 1.0, 1.0], n=7)
    assert (items % 2 == 0).all()
    items, _ = model.recommend_fold_in([500, 501], [1.0, 5.0], n=7)
    assert (items % 2 == 1).all()


def test_a_damping_is_chosen_that_leaves_no_deviations_where_there_are_no_clusters():
    random = np.random.default_rng(0)
    who, what = np.divmod(random.permutation(300 * 60)[:6000], 60)
    noise = Interactions(who, what, random.normal(0, 1, 6000))
    assert ClusterMeans().fit(noise).damping_ > 100
    assert ClusterMeans(clusters=2).fit(checkerboard(60, 40)).damping_ == 5.0
    assert ClusterMeans(damping=7).fit(noise).damping_ == 7


def test_it_is_better_than_means_where_ratings_are_many_and_where_they_are_few():
    for ratings in (60_000, 9000):
        world = generate_world(users=1500, items=500, ratings=ratings, random_state=3)
        train, test = world.interactions.split(0.8, 0.2, random_state=0)
        assert rmse(ClusterMeans().fit(train), test) < rmse(DampedMeans().fit(train), test)


@pytest.mark.parametrize("damage", ["cluster", "centroids", "damping"])
def test_a_damaged_file_is_refused(damage):
    model = ClusterMeans(clusters=2).fit(WORLD)
    if damage == "cluster":
        model._clusters[0] = 2
    elif damage == "centroids":
        model._centroids = model._centroids[:1]
    else:
        model.damping_ = 0.0
    with pytest.raises(ModelFormatError):
        load(model.to_bytes())

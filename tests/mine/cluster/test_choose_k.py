"""choose_k: the curve is that of k-means, and its elbow the number of separated clusters."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from sfumato.errors import ParameterError
from sfumato.mine.cluster import KMeans, choose_k, plot_clusters


@pytest.mark.parametrize("by", ["distance", "loss"])
@pytest.mark.parametrize("k", [2, 4, 7])
def test_elbow_is_the_number_of_separated_clusters(by, k):
    rng = np.random.default_rng(k)
    corners = np.array([[x, y] for x in range(3) for y in range(3)])[:k] * 40.0
    points = np.concatenate([rng.normal(c, 1, (80, 2)) for c in corners])
    curve = choose_k(points, range(1, 13), by=by, random_state=0)
    assert curve.k == k


def test_elbow_is_found_where_clusters_lie_at_random_and_none_in_one_cluster():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        k, centres = 3 + seed % 5, []
        while len(centres) < k:
            centre = rng.uniform(0, 25, 2)
            if all(np.linalg.norm(centre - other) >= 6 for other in centres):
                centres.append(centre)
        points = np.concatenate([rng.normal(c, 1, (rng.integers(60, 200), 2)) for c in centres])
        assert choose_k(points, range(1, 12), random_state=0).k == k
    one = np.random.default_rng(0).normal(size=(400, 2))
    assert choose_k(one, range(1, 12), random_state=0).k == 1
    assert choose_k(points, [1, 2, 4, 7, 9, 12], random_state=0).k == k  # gaps do not matter


def test_curve_holds_mean_distance_and_loss_of_each_number():
    points = np.random.default_rng(0).normal(size=(300, 3))
    weights = np.random.default_rng(1).uniform(0, 2, 300)
    curve = choose_k(points, [5, 2, 3, 3], random_state=0, sample_weight=weights)
    assert curve.ks.tolist() == [2, 3, 5]
    assert len(curve) == 3
    for at, k in enumerate(curve.ks):
        model = KMeans(int(k), random_state=0).fit(points, sample_weight=weights)
        apart = cdist(points, model.cluster_centers_).min(axis=1)
        assert curve.distances[at] == pytest.approx(np.average(apart, weights=weights))
        assert curve.losses[at] == pytest.approx(model.loss_)
    assert curve.to_arrow().column_names == ["k", "distance", "loss"]
    axes = curve.figure().axes[0]
    assert axes.get_xlabel() == "number of clusters k"
    assert curve.figure().axes[0].lines[0].get_ydata().tolist() == curve.distances.tolist()


def test_a_flat_curve_has_its_elbow_at_the_start_and_few_numbers_are_refused():
    with pytest.warns(ConvergenceWarning, match="clusters are empty"):
        assert choose_k(np.ones((9, 2)), [1, 2, 3], random_state=0).k == 1
    with pytest.raises(ParameterError, match="ks must name three different numbers"):
        choose_k(np.ones((9, 2)), [2, 2, 3])
    with pytest.raises(ParameterError, match="n_clusters must be at most"):
        choose_k(np.arange(6.0).reshape(3, 2), [2, 3, 4])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_pictures_show_columns_or_components(d):
    points = np.random.default_rng(0).normal(size=(100, d))
    labels = np.arange(100) % 3 - 1
    figure = plot_clusters(points, labels, centres=points[:2], names=list("abcde")[:d])
    drawn = sum(len(each.get_offsets()) for each in figure.axes[0].collections)
    assert drawn == 102
    assert figure.axes[0].get_xlabel() == ("a" if d < 3 else "first component")
    few = plot_clusters(points, labels, max_points=10)
    assert sum(len(each.get_offsets()) for each in few.axes[0].collections) == 10
    with pytest.raises(ValueError, match="labels must be 100 integers"):
        plot_clusters(points, labels[:5])

"""KMeans: nearest centres, means of rows, an objective that never rises, and starts that find."""

import itertools
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans as Peer
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.errors import NotFittedError, ParameterError
from sfumato.kernels.mine.cluster import cluster_starts, nearest_centres
from sfumato.mine.cluster import KMeans
from sfumato.mine.cluster.kmeans import starts
from sfumato.mine.cluster.kmeans.kmeans import LIMITS
from sfumato.mine.cluster.kmeans.lloyd import Lloyd

DATA = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4] / "shared" / "data"))


def blobs(seed, n=600, k=5, d=3, apart=6.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d)) * apart
    labels = rng.integers(k, size=n)
    return (centres[labels] + rng.normal(size=(n, d))).astype(dtype), centres, labels


def inertia(points, centres, weights=None):
    return np.average(cdist(points, centres).min(axis=1) ** 2, weights=weights) * (
        len(points) if weights is None else np.sum(weights)
    )


@pytest.mark.parametrize("model", [KMeans(), KMeans(3, batch_size=20, init="furthest-first")])
def test_scikit_learns_checks_pass(model):
    # Starts are drawn: rows of weight 2 and rows that are there twice give other ones. From the
    # same centres they are equal, see below. scikit-learn's own KMeans is excused alike.
    left_out = ("check_array_api_input", "check_sample_weight_equivalence_on_dense_data")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(model):
            if check.func.__name__ not in left_out:
                check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (64, 1, 16), (65, 20, 17), (300, 33, 2)])
def test_kernel_finds_the_nearest_centre_and_its_distance(dtype, shape):
    n, k, d = shape
    rng = np.random.default_rng(0)
    points, centres = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(k, d)).astype(dtype)
    labels, squared = np.empty(n, np.int32), np.empty(n, dtype)
    nearest_centres.nearest(points, centres, labels, squared)
    apart = cdist(points, centres, "sqeuclidean")
    np.testing.assert_allclose(squared, apart.min(axis=1), rtol=1e-5)
    assert (labels == apart.argmin(axis=1)).all()
    scales = rng.uniform(0.5, 2, size=(k, d)).astype(dtype)
    nearest_centres.nearest_scaled(points, centres, scales, labels, squared)
    apart = np.square((points[:, np.newaxis].astype(float) - centres) * scales).sum(axis=2)
    np.testing.assert_allclose(squared, apart.min(axis=1), rtol=1e-5)
    assert (labels == apart.argmin(axis=1)).all()


def test_of_equal_centres_the_first_counts():
    points, centres = np.ones((5, 2)), np.zeros((3, 2))
    model = KMeans(3, init=[[9, 9], [1, 1], [1, 1]], max_iter=1)
    with pytest.warns(ConvergenceWarning, match="2 of 3 clusters are empty"):
        assert model.fit(points).labels_.tolist() == [1] * 5
    labels = np.empty(5, np.int32)
    nearest_centres.nearest(points, centres, labels, np.empty(5))
    assert labels.tolist() == [0] * 5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_give_the_labels_of_lloyds_algorithm_in_every_iteration(weighted, dtype):
    for seed in range(6):
        points, _, _ = blobs(seed, n=400, k=6, d=2, apart=1.5, dtype=dtype)
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0.5, 2, 400).astype(dtype) if weighted else None
        lloyd = Lloyd(points, weights, points[:6])
        centres = points[:6].astype(float)
        for _ in range(25):
            lloyd.assign()
            apart = cdist(points, lloyd.centres)
            own = apart[np.arange(400), lloyd.labels]
            np.testing.assert_allclose(own, apart.min(axis=1), rtol=1e-5)
            labels = cdist(points, centres).argmin(axis=1)
            if dtype == np.float64:
                assert (labels == lloyd.labels).all()
            lloyd.update()
            centres = np.stack(
                [
                    np.average(
                        points[lloyd.labels == k],
                        axis=0,
                        weights=None if weights is None else weights[lloyd.labels == k],
                    )
                    for k in range(6)
                ]
            )
            np.testing.assert_allclose(lloyd.centres, centres, rtol=1e-4, atol=1e-5)


def test_objective_of_the_course_never_rises_and_is_the_mean_of_half_squares():
    for seed in range(8):
        points, _, _ = blobs(seed, n=300, k=9, d=2, apart=1.0)
        values = []
        for n in range(1, 30):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = KMeans(9, init=points[:9], max_iter=n, tol=0).fit(points)
            values.append(model.loss_)
            apart = cdist(points, model.cluster_centers_)
            assert model.loss_ == pytest.approx((apart.min(axis=1) ** 2).mean() / 2)
            assert (model.labels_ == model.predict(points)).all()
        assert all(later <= sooner * (1 + 1e-12) for sooner, later in itertools.pairwise(values))
        # Finite: at the end nothing moves, and each centre is the mean of its rows.
        means = [points[model.labels_ == k].mean(axis=0) for k in range(9)]
        np.testing.assert_allclose(model.cluster_centers_, means)


def test_assignment_matrix_of_the_course_reads_row_by_row():
    # R = ((0, 0, 1), (1, 0, 0)): x_1 is in cluster 3, x_2 in cluster 1.
    model = KMeans(3, init=[[1.0], [5.0], [9.0]], max_iter=1)
    with pytest.raises(ParameterError, match="n_clusters must be at most the number of rows"):
        model.fit([[9.0], [1.0]])
    labels = model.fit([[9.0], [1.0], [5.0]]).predict([[9.0], [1.0]])
    matrix = (labels[:, np.newaxis] == np.arange(3)).astype(int)
    assert matrix.tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_from_the_same_start_it_ends_where_scikit_learn_does(dtype):
    for seed in range(5):
        points, _, _ = blobs(seed, n=500, k=7, d=4, apart=1.0, dtype=dtype)
        mine = KMeans(7, init=points[:7], tol=0).fit(points)
        peer = Peer(7, init=points[:7], n_init=1, tol=0).fit(points)
        np.testing.assert_allclose(mine.cluster_centers_, peer.cluster_centers_, rtol=1e-3)
        assert mine.inertia_ == pytest.approx(peer.inertia_, rel=1e-5)
        assert mine.cluster_centers_.dtype == dtype


def test_weights_count_as_repeated_rows_and_zero_as_none():
    points, _, _ = blobs(1, n=200, k=4)
    weights = np.random.default_rng(0).integers(0, 4, 200)
    start = points[:4] + 0.0
    one = KMeans(4, init=start, tol=0).fit(points, sample_weight=weights)
    two = KMeans(4, init=start, tol=0).fit(np.repeat(points, weights, axis=0))
    np.testing.assert_allclose(one.cluster_centers_, two.cluster_centers_)
    assert one.inertia_ == pytest.approx(two.inertia_)
    assert one.loss_ == pytest.approx(two.loss_)
    assert one.labels_.shape == (200,)
    assert (one.labels_ == one.predict(points)).all()
    assert one.score(points, sample_weight=weights) == pytest.approx(-one.inertia_)


@pytest.mark.parametrize("init", ["k-means++", "furthest-first"])
@pytest.mark.parametrize("sample", ["auto", 200, None])
def test_starts_find_every_separated_cluster(init, sample):
    # Swaps make one start enough: among these 6 worlds and others none was missed.
    for seed in range(6):
        points, centres, _ = blobs(seed, n=3000, k=12, d=3, apart=12.0)
        model = KMeans(12, init=init, n_init=1, sample=sample, random_state=seed).fit(points)
        best = KMeans(12, init=centres).fit(points)
        assert model.inertia_ <= best.inertia_ * (1 + 1e-4)


def test_plus_plus_draws_rows_by_squared_distance():
    # Rows at 0, 1 and 3, the first drawn is 0: then 1 has probability 1/10, 3 has 9/10. Of 2000
    # draws the count of 1 is within 5 deviations of 200 but for a probability below 1e-6.
    columns = np.zeros((1, 16))
    columns[0, :3] = [0, 1, 3]
    weights = np.zeros(16)
    weights[:3] = 1
    rng, counts = np.random.default_rng(0), np.zeros(16)
    for _ in range(2000):
        chosen, closest = np.zeros(2, np.int64), np.ones(16)
        draws = np.array([[0.0], [rng.random()]])
        cluster_starts.plus_plus(columns, weights, draws, closest, chosen)
        assert chosen[0] == 0
        counts[chosen[1]] += 1
    assert counts[:3].sum() == 2000
    assert abs(counts[1] - 200) < 5 * np.sqrt(2000 * 0.1 * 0.9)


def test_furthest_first_takes_the_furthest_row_each_time():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(50, 3))
    columns, masses = starts._columns(points, None)
    chosen = np.zeros(6, np.int64)
    chosen[0] = 17
    cluster_starts.furthest_first(columns, masses, np.ones(masses.size), chosen)
    for at in range(1, 6):
        apart = cdist(points, points[chosen[:at]]).min(axis=1)
        assert chosen[at] == apart.argmax()


def test_sample_grows_with_k_and_the_logarithm_of_rows():
    assert starts.sample_size(10**6, 20) == int(50 * 20 * np.log2(10**6))
    assert starts.sample_size(100, 20) == 100


def test_empty_clusters_take_the_furthest_row_or_stay():
    points = np.array([[0.0], [1.0], [2.0], [50.0]])
    model = KMeans(3, init=[[1.0], [1000.0], [2000.0]], tol=0).fit(points)
    assert model.inertia_ == pytest.approx(0.5)
    assert model.counts_.tolist() != [4, 0, 0]
    for k, rows in ((3, [[1.0, 2.0]] * 4), (2, np.full((9, 1), 7.0))):
        with pytest.warns(ConvergenceWarning, match="fewer distinct rows"):
            model = KMeans(k, random_state=0).fit(rows)
        assert model.inertia_ == 0
        assert len(model.cluster_centers_) == k
        assert np.isfinite(model.cluster_centers_).all()
    column = np.column_stack([np.arange(20.0) // 10, np.ones(20)])  # a constant column
    assert KMeans(2, random_state=0).fit(column).inertia_ == 0


def test_partial_fit_makes_each_centre_the_mean_of_the_rows_it_got():
    points, centres, _ = blobs(3, n=4000, k=4, d=2, apart=10.0)
    model, sums, counts = KMeans(4, random_state=0), np.zeros((4, 2)), np.zeros(4)
    weights = np.random.default_rng(0).uniform(0.5, 2, 4000)
    for at in range(0, 4000, 500):
        rows = slice(at, at + 500)
        model.partial_fit(points[rows], sample_weight=weights[rows])
        np.add.at(sums, model.labels_, points[rows] * weights[rows, np.newaxis])
        np.add.at(counts, model.labels_, weights[rows])
    np.testing.assert_allclose(model.counts_, counts)
    np.testing.assert_allclose(model.cluster_centers_, sums / counts[:, np.newaxis])
    assert cdist(centres, model.cluster_centers_).min(axis=1).max() < 0.2
    with pytest.raises(ParameterError, match="n_samples=3"):
        KMeans(4).partial_fit(points[:3])
    batched = KMeans(4, batch_size=256, random_state=0).fit(points)
    assert batched.inertia_ < KMeans(4, random_state=0).fit(points).inertia_ * 1.05


def test_transform_gives_distances_and_large_numbers_do_not_overflow():
    points, _, _ = blobs(0, n=50, k=3, d=2)
    model = KMeans(3, random_state=0).fit(points)
    np.testing.assert_allclose(model.transform(points), cdist(points, model.cluster_centers_))
    far = (points * 1e25).astype(np.float32)
    assert np.isfinite(KMeans(3, random_state=0).fit(far).inertia_)


def test_bad_input_is_refused_with_a_sentence():
    points = np.zeros((9, 2))
    points[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"KMeans: X must be finite .*row 4, column 1 is NaN"):
        KMeans(2).fit(points)
    with pytest.raises(ValueError, match="X must be numbers; a column is text") as error:
        KMeans(2).fit([["a", "Sekret"], ["b", "c"]])
    assert "Sekret" not in str(error.value)
    with pytest.raises(ValueError, match="KMeans: X must be finite and at most"):
        KMeans(2).fit([[1e200], [2.0]])
    good = np.arange(9.0).reshape(-1, 1)
    for weights, problem in (
        ([1], "one number per row"),
        ([-1] * 9, "from 0 up"),
        ([0] * 9, "zero"),
    ):
        with pytest.raises(ValueError, match=problem):
            KMeans(2).fit(good, sample_weight=weights)
    with pytest.raises(ParameterError, match=r"init must be .* shape \(2, 1\)"):
        KMeans(2, init=[[1.0]]).fit(good)
    with pytest.raises(NotFittedError, match="call fit first"):
        KMeans(2).predict(good)
    for name, limit in LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"KMeans: {name} must be"):
                KMeans(**{name: bad}).fit(good)


def test_progress_is_reported_and_an_interrupted_fit_changes_nothing():
    points, _, _ = blobs(0, n=500, k=8, d=2, apart=0.5)
    calls = []
    model = KMeans(8, random_state=0, tol=0).fit(points, progress=lambda *at: calls.append(at))
    assert calls[-1][0] <= model.n_iter_
    assert calls[0][1] == 300
    before = model.cluster_centers_.copy()

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(points + 100, progress=stop)
    assert (model.cluster_centers_ == before).all()


@pytest.mark.skipif(not (DATA / "uci-skin").is_dir(), reason="the data sets are not here")
def test_on_a_real_table_it_is_no_worse_than_scikit_learn():
    file = next((DATA / "uci-skin").glob("*"))
    rows = np.loadtxt(file, usecols=(0, 1, 2), max_rows=20_000, delimiter=None)
    mine = KMeans(8, random_state=0).fit(rows).inertia_
    assert mine <= 1.001 * min(Peer(8, random_state=seed).fit(rows).inertia_ for seed in range(3))

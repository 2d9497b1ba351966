"""CURE: clusters of any shape, representatives as stated, and files assigned in batches."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons

from sfumato.errors import NotFittedError, ParameterError
from sfumato.mine.cluster import CURE, Hierarchical, adjusted_rand_index, purity
from sfumato.mine.cluster.cure.cure_source import PointBatches, uniform_sample

REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4] / "shared" / "data"))


def moons(seed, n=10_000):
    return make_moons(n, noise=0.05, random_state=seed)


def circles(seed, n=10_000):
    return make_circles(n, noise=0.05, factor=0.5, random_state=seed)


def disc(n, radius, centre, draws):
    angle, at = draws.uniform(0, 2 * np.pi, n), radius * np.sqrt(draws.uniform(size=n))
    return np.c_[at * np.cos(angle), at * np.sin(angle)] + centre


def large_beside_small(seed):
    draws = np.random.default_rng(seed)
    X = np.concatenate([disc(9900, 5, (0, 0), draws), disc(100, 0.5, (7, 0), draws)])
    return X, np.repeat([0, 1], [9900, 100])


def two_squares(seed=0, n=300):
    draws = np.random.default_rng(seed)
    return np.concatenate([draws.random((n, 2)), draws.random((n, 2)) + np.array([3, 0])])


@pytest.mark.parametrize("shapes", [moons, circles])
def test_shapes_that_are_not_convex_are_found(shapes):
    for seed in range(4):
        X, y = shapes(seed)
        assert adjusted_rand_index(y, CURE(2, random_state=seed).fit_predict(X)) >= 0.95
        means = KMeans(2, n_init=1, random_state=0).fit_predict(X)
        assert adjusted_rand_index(y, means) < 0.6


@pytest.mark.parametrize("shapes", [moons, circles])
def test_noise_between_the_shapes_does_not_join_them(shapes):
    for seed in range(4):
        X, y = shapes(seed)
        noise = np.random.default_rng(seed).uniform(X.min(0), X.max(0), (500, 2))
        every = np.concatenate([X, noise])
        model = CURE(2, random_state=seed).fit(every)
        assert model.outliers_ > 0
        assert adjusted_rand_index(y, model.labels_[: len(X)]) >= 0.95
    bent = [CURE(2, outliers=0.0, random_state=s).fit_predict(every)[: len(X)] for s in range(4)]
    assert min(adjusted_rand_index(y, labels) for labels in bent) < 0.95  # so it has a purpose


def test_a_small_cluster_beside_a_large_one_is_found():
    for seed in range(4):
        X, y = large_beside_small(seed)
        few = CURE(2, random_state=seed).fit_predict(X)
        assert adjusted_rand_index(y, few) > 0.85
        many = CURE(2, representatives=40, random_state=seed).fit_predict(X)
        assert adjusted_rand_index(y, many) > 0.98
        means = KMeans(2, n_init=1, random_state=0).fit_predict(X)
        assert adjusted_rand_index(y, means) < 0.2


def test_representatives_are_scattered_points_moved_to_the_centre():
    X = np.concatenate([np.random.default_rng(0).random((80, 2)), [[9.0, 9.0]]])
    model = CURE(2, representatives=5, shrink=0.25, outliers=0.0).fit(X)
    centre = X[:80].mean(axis=0)
    chosen, gap = [int(cdist(X[:80], [centre]).argmax())], None
    while len(chosen) < 5:
        gap = cdist(X[:80], X[chosen]).min(axis=1)
        chosen.append(int(gap.argmax()))
    expected = X[chosen] + 0.25 * (centre - X[chosen])
    np.testing.assert_allclose(model.representatives_[:5], expected)
    np.testing.assert_allclose(model.representatives_[5:], [[9.0, 9.0]])
    assert model.representative_labels_.tolist() == [0] * 5 + [1]


def test_a_sample_of_all_rows_without_outliers_is_single_linkage():
    X = np.random.default_rng(3).normal(size=(150, 2))
    every = CURE(7, outliers=0.0, shrink=0.0, representatives=150).fit(X)
    single = Hierarchical(7, linkage="single").fit_predict(X)
    assert adjusted_rand_index(single, every.labels_) == 1  # every point represents itself


def brute_force(X, labels, c, shrink, goal, threshold):
    """Merge by nearest representatives, all pairs tried at every step."""

    def scattered(members):
        P = X[members]
        centre = P.mean(axis=0)
        chosen = [int(cdist(P, [centre]).argmax())]
        while len(chosen) < min(c, len(P)):
            chosen.append(int(cdist(P, P[chosen]).min(axis=1).argmax()))
        return P[chosen] + shrink * (centre - P[chosen])

    groups = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    while len(groups) > goal:
        places = [scattered(g) for g in groups]
        apart = {
            (a, b): cdist(places[a], places[b]).min() for b in range(len(groups)) for a in range(b)
        }
        a, b = min(apart, key=apart.get)
        if apart[a, b] > threshold:
            break
        groups[a] = np.concatenate([groups[a], groups.pop(b)])
    out = np.empty(len(X), int)
    for g, members in enumerate(groups):
        out[members] = g
    return out, np.concatenate([scattered(g) for g in groups])


@pytest.mark.parametrize("threshold", [np.inf, 0.4])
def test_clusters_are_merged_by_their_nearest_representatives(threshold):
    from sfumato.mine.cluster.cure.cure_sample import represented

    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(40, 2))
        start = Hierarchical(40 if seed % 2 else 12, linkage="single").fit_predict(X)
        expected, places = brute_force(X, start, 4, 0.3, 3, threshold)
        found, owners, labels = represented(X, start, 4, 0.3, 3, threshold)
        assert adjusted_rand_index(expected, labels) == 1
        order, other = np.lexsort(places.T), np.lexsort(found.T)
        np.testing.assert_allclose(found[other], places[order])
        assert owners.max() == labels.max()


def test_a_threshold_merges_until_clusters_are_apart():
    X = np.concatenate([two_squares(), two_squares() + np.array([0, 3])])  # four squares, 2 apart
    for initial in (None, 8, 50, 10_000):
        model = CURE(1, threshold=1.5, initial=initial, random_state=0).fit(X)
        assert model.n_clusters_ == 4, initial
        assert purity(np.repeat([0, 1, 2, 3], 300), model.labels_) == 1
    assert CURE(1, threshold=10.0, random_state=0).fit(X).n_clusters_ == 1
    assert CURE(6, threshold=10.0, random_state=0).fit(X).n_clusters_ == 6


def test_points_go_to_the_nearest_representative():
    X, _ = moons(0, 2000)
    model = CURE(5, random_state=0).fit(X)
    others = np.random.default_rng(0).normal(size=(500, 2))
    nearest = cdist(others, model.representatives_).argmin(axis=1)
    assert (model.predict(others) == model.representative_labels_[nearest]).all()
    assert (model.predict(X) == model.labels_).all()


def test_equal_seeds_give_equal_clusters():
    X, _ = moons(0)
    first, again, other = (CURE(4, sample=300, random_state=s).fit(X) for s in (1, 1, 2))
    assert (first.representatives_ == again.representatives_).all()
    assert (
        first.representatives_.shape != other.representatives_.shape
        or (first.representatives_ != other.representatives_).any()
    )
    assert first.sample_size_ == 300


# Files.


def written(folder, X):
    table = pa.table({"x": X[:, 0], "other": np.arange(len(X)), "y": X[:, 1]})
    pq.write_table(table, folder / "points.parquet", row_group_size=1000)
    lines = "\n".join(f"{a!r},{b!r}" for a, b in X.tolist())
    (folder / "points.csv").write_text(f"x,y\n0,0\n{lines}\n")
    return folder / "points.parquet", folder / "points.csv", table


def test_files_and_tables_are_fitted_and_assigned_in_batches(tmp_path):
    X, y = moons(1, 5000)
    parquet, text, table = written(tmp_path, X)
    model = CURE(2, sample=1000, random_state=0).fit_source(parquet, ["x", "y"], batch_rows=700)
    assert model.sample_size_ == 1000
    assert not hasattr(model, "labels_")
    expected = model.predict(table.to_pandas()[["x", "y"]])
    assert adjusted_rand_index(y, expected) > 0.95
    for source in (parquet, table, table.to_pandas(), [str(parquet)]):
        parts = list(model.assign(source, batch_rows=700))
        assert max(map(len, parts)) <= 700
        assert (np.concatenate(parts) == expected).all()
    # A text file whose first numbers look like integers.
    assert (np.concatenate(list(model.assign(text)))[1:] == expected).all()


def test_assigned_rows_are_written_to_parquet_with_progress(tmp_path):
    X, _ = moons(1, 5000)
    parquet, _, _ = written(tmp_path, X)
    model = CURE(2, random_state=0).fit(X)
    reports, out = [], tmp_path / "out.parquet"
    found = model.assign(
        parquet, ["x", "y"], output=out, batch_rows=2000, progress=lambda *r: reports.append(r)
    )
    table = found.to_table()
    assert table.column_names == ["x", "y", "cluster"]
    assert (table["cluster"].to_numpy() == model.labels_).all()
    assert (table["x"].to_numpy() == X[:, 0]).all()
    assert reports[-1] == (5000, 5000)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out.parquet",
        "points.csv",
        "points.parquet",
    ]


def test_an_interrupted_output_leaves_no_file(tmp_path):
    model = CURE(2).fit(two_squares())
    good = {"x": [1.0], "y": [2.0]}
    with pytest.raises(ValueError, match=r"column 'y' must be finite .* row 1 is missing"):
        model.assign(
            iter([good, {"x": [1.0], "y": [None]}]), ["x", "y"], output=tmp_path / "out.parquet"
        )
    assert list(tmp_path.iterdir()) == []


def test_the_sample_of_a_source_is_uniform():
    # Each of 40 rows is in a sample of 10 with probability 1/4, whatever the batches.
    table, counts, runs = {"x": np.arange(40.0)}, np.zeros(40), 2000
    draws = np.random.default_rng(0)
    for _ in range(runs):
        points, count = uniform_sample(PointBatches("CURE", table, ["x"], 7), 10, draws)
        assert count == 40
        assert len(points) == 10
        assert (np.diff(points[:, 0]) > 0).all()
        counts[points[:, 0].astype(int)] += 1
    # Standardised counts; beyond 5.5 with p < 40 x 4e-8.
    assert np.abs((counts - runs / 4) / np.sqrt(runs * 3 / 16)).max() < 5.5
    every, count = uniform_sample(PointBatches("CURE", table, ["x"], 7), 100, draws)
    assert (every[:, 0] == np.arange(40)).all()


# Bad and small input.


def test_few_rows_duplicates_and_constant_columns_are_defined():
    assert CURE(1).fit_predict([[3.0, 4.0]]).tolist() == [0]
    assert CURE(2).fit_predict([[3.0], [4.0]]).tolist() == [0, 1]
    X = np.repeat([[0.0, 7.0], [5.0, 7.0]], 400, axis=0)
    model = CURE(2).fit(X)
    assert model.labels_.tolist() == [0] * 400 + [1] * 400
    assert len(model.representatives_) == 2  # copies represent nothing new
    same = CURE(3).fit(np.ones((600, 2)))
    assert same.n_clusters_ == 3
    for initial in (None, 5, 600):
        assert CURE(3, initial=initial).fit(X).n_clusters_ == 3


def test_outliers_are_retained_where_clusters_would_be_too_few():
    lonely = np.arange(600.0)[:, None] ** 2  # the gaps grow: all but two are alone for long
    model = CURE(500).fit(lonely)
    assert model.n_clusters_ == 500
    assert CURE(600).fit(lonely).outliers_ == 0


def test_invalid_input_is_refused_with_a_sentence_and_nothing_changes():
    model = CURE(2, sample=50).fit(two_squares())
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="row 0, column 1 is NaN, inf or larger"):
        model.fit([[0.0, np.inf], [1.0, 1.0]])
    with pytest.raises(ParameterError, match=r"number of rows \(n_samples=1\), not 2"):
        model.fit([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="at least one row"):
        model.fit_source({"x": pa.array([], pa.float64())}, ["x"])
    with pytest.raises(ValueError, match="column 'x' must be numbers; some of rows 0 to 1"):
        model.fit_source({"x": ["1", "tea"]}, ["x"])
    assert model.__dict__ == before
    with pytest.raises(ParameterError, match="columns must be given"):
        model.assign({"x": [1.0]})
    with pytest.raises(ParameterError, match="columns must be 2, as in the fit, not 1"):
        model.assign({"x": [1.0]}, ["x"])
    with pytest.raises(ParameterError, match="'cluster'; rename it"):
        model.assign({"x": [1.0], "cluster": [1.0]}, ["x", "cluster"], output="out.parquet")
    with pytest.raises(ParameterError, match=r"number of sampled rows \(50\), not 60"):
        CURE(60, sample=50).fit(two_squares())
    with pytest.raises(NotFittedError, match="CURE: not fitted yet"):
        CURE().assign({"x": [1.0]}, ["x"])


@pytest.mark.parametrize("name", sorted(CURE.LIMITS))
def test_every_limit_of_a_parameter_is_checked(name):
    for value in CURE.LIMITS[name].bad():
        with pytest.raises(ParameterError, match=f"CURE: {name} must be"):
            CURE(**{name: value}).fit(two_squares())
    with pytest.raises(ParameterError, match="initial must be at least n_clusters, 4, not 3"):
        CURE(4, initial=3).fit(two_squares())


def test_large_clusters_are_counted_from_above():
    # By brute force: the last state of the merges with enough clusters of at least so many points.
    from sfumato.mine.cluster.cure.cure_sample import _cut, _large_clusters, _merges

    for seed in range(30):
        draws = np.random.default_rng(seed)
        merges = _merges(draws.normal(size=(int(draws.integers(2, 40)), 2)))
        n, count, least = len(merges) + 1, int(draws.integers(1, 4)), int(draws.integers(1, 6))
        states = [_cut(merges, applied) for applied in range(n - 1, -1, -1)]
        enough = [s for s in states if (np.bincount(s) >= least).sum() >= count]
        found = _large_clusters(merges, count, least)
        if not enough:
            assert found is None
            continue
        large = np.bincount(enough[0])[enough[0]] >= least
        assert ((found >= 0) == large).all()
        assert adjusted_rand_index(enough[0][large], found[large]) == 1
        assert found.max() + 1 == len(np.unique(found[large]))


@pytest.mark.skipif(not REAL.exists(), reason="the shared data sets are not here")
def test_real_digits_are_assigned():
    X = np.load(REAL / "adbench" / "28_pendigits.npz")["X"]
    model = CURE(10, random_state=0).fit(X)
    assert model.n_clusters_ == 10
    assert len(np.unique(model.labels_)) == 10

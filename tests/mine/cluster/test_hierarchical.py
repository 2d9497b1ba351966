"""Hierarchical clustering: merges as of SciPy or by brute force, for every linkage and metric."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import make_blobs, make_circles

from sfumato.errors import ParameterError
from sfumato.mine.cluster import Hierarchical, adjusted_rand_index
from sfumato.mine.cluster.hierarchical import distance_matrix
from sfumato.mine.cluster.hierarchical.distance_matrix import distances_of
from sfumato.mine.similar import distances as row_distances


def points(n, columns=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def fit(X, linkage="auto", **options):
    return Hierarchical(options.pop("n_clusters", 1), linkage=linkage, **options).fit(X)


@pytest.mark.parametrize("linkage", ["single", "complete", "average", "centroid"])
@pytest.mark.parametrize("n", [2, 3, 10, 75, 200])
def test_merges_are_those_of_scipy(linkage, n):
    for seed in range(4):
        X = points(n, 1 + seed, seed)
        np.testing.assert_allclose(fit(X, linkage).merges_, hierarchy.linkage(X, linkage))


def test_given_distances_give_the_same_merges_as_points():
    X = points(60)
    D = squareform(pdist(X))
    before = D.copy()
    for linkage in ("single", "complete", "average", "clustroid", "within", "density"):
        given = fit(D, linkage, metric="precomputed", power=3)
        np.testing.assert_allclose(given.merges_, fit(X, linkage).merges_)
    assert (before == D).all()


# Brute force: every pair of clusters is tried at every step.


def clustroid(D, members, definition):
    part = D[np.ix_(members, members)]
    far = {"mean": part.sum(1), "squares": (part**2).sum(1), "largest": part.max(1)}[definition]
    return members[int(far.argmin())]


def criterion(D, a, b, linkage, definition, power):
    union = sorted(a + b)
    pairs = [D[i, j] for i, j in itertools.combinations(union, 2)]
    if linkage == "clustroid":
        return D[clustroid(D, a, definition), clustroid(D, b, definition)]
    if linkage == "diameter":
        return max(pairs)
    if linkage == "within":
        return sum(pairs) / len(pairs)
    return (max(pairs) ** power / len(union)) ** (1 / power)  # volume per point


def brute_force(D, linkage, definition="mean", power=2.0):
    """Merges as (sets of members, height), by trying all pairs."""
    clusters, found = [[i] for i in range(len(D))], []
    while len(clusters) > 1:
        tried = [
            (criterion(D, a, b, linkage, definition, power), a, b)
            for a, b in itertools.combinations(clusters, 2)
        ]
        height, a, b = min(tried, key=lambda each: each[0])
        clusters = [c for c in clusters if c not in (a, b)] + [sorted(a + b)]
        found.append((frozenset(a + b), height))
    return found


def merged_sets(merges):
    n = len(merges) + 1
    sets = [frozenset([i]) for i in range(n)]
    for a, b, _, size in merges:
        sets.append(sets[int(a)] | sets[int(b)])
        assert len(sets[-1]) == size
    return list(zip(sets[n:], merges[:, 2], strict=True))


def assert_same(found, expected):
    assert [members for members, _ in found] == [members for members, _ in expected]
    np.testing.assert_allclose([h for _, h in found], [h for _, h in expected], rtol=1e-9)


@pytest.mark.parametrize(
    ("linkage", "definition"),
    [
        ("clustroid", "mean"),
        ("clustroid", "squares"),
        ("clustroid", "largest"),
        ("diameter", "mean"),
        ("within", "mean"),
        ("density", "mean"),
    ],
)
def test_merges_are_those_of_brute_force(linkage, definition):
    for seed in range(12):
        n = 4 + 2 * seed
        X = points(n, 2, seed)
        model = fit(X, linkage, clustroid=definition, power=2.0)
        expected = brute_force(squareform(pdist(X)), linkage, definition)
        assert_same(merged_sets(model.merges_), expected)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_density_takes_any_power_and_by_default_the_number_of_columns(power):
    X = points(15, 3, 7)
    D = squareform(pdist(X))
    found = fit(X, "density", power=power)
    assert_same(merged_sets(found.merges_), brute_force(D, "density", power=power))
    by_default = merged_sets(fit(X, "density").merges_)
    assert_same(by_default, brute_force(D, "density", power=3.0))


def test_smallest_diameters_merge_as_complete_linkage():
    X = points(120)
    np.testing.assert_array_equal(fit(X, "diameter").merges_, fit(X, "complete").merges_)


# Divisive.


def splinter(D, members):
    """DIANA's split of a cluster, as the book states it."""
    rest, group = list(members), []
    mean = [D[i, rest].sum() / (len(rest) - 1) for i in rest]
    group.append(rest.pop(int(np.argmax(mean))))
    while len(rest) > 1:
        gain = [D[i, rest].sum() / (len(rest) - 1) - D[i, group].mean() for i in rest]
        if max(gain) <= 0:
            break
        group.append(rest.pop(int(np.argmax(gain))))
    return rest, group


def diana(D):
    clusters, found = [list(range(len(D)))], []
    while any(len(c) > 1 for c in clusters):
        widest = max(clusters, key=lambda c: D[np.ix_(c, c)].max() if len(c) > 1 else -1)
        clusters.remove(widest)
        found.append((frozenset(widest), D[np.ix_(widest, widest)].max()))
        clusters.extend(splinter(D, widest))
    return found[::-1]


def test_divisive_splits_are_those_of_brute_force():
    for seed in range(10):
        X = points(5 + 3 * seed, 2, seed)
        model = fit(X, method="divisive")
        assert_same(merged_sets(model.merges_), diana(squareform(pdist(X))))


@pytest.mark.parametrize(
    "options",
    [{"linkage": each} for each in ("single", "complete", "average", "centroid", "clustroid")]
    + [{"linkage": "density"}, {"linkage": "within"}, {"method": "divisive"}],
)
def test_merges_are_valid_for_scipy_and_labels_are_their_cut(options):
    X = points(80, 2, 3)
    model = Hierarchical(6, **options).fit(X)
    merges = model.merges_
    assert hierarchy.is_valid_linkage(merges)
    hierarchy.dendrogram(merges, no_plot=True)
    assert model.n_clusters_ == 6
    assert model.applied_ == 74
    if hierarchy.is_monotonic(merges):
        theirs = hierarchy.fcluster(merges, 6, "maxclust")
        assert adjusted_rand_index(theirs, model.labels_) == 1
    firsts = [int(np.flatnonzero(model.labels_ == g)[0]) for g in range(6)]
    assert firsts == sorted(firsts)


# Data of the course.


def test_centroids_win_on_convex_blobs_and_single_linkage_on_circles():
    # Blobs that touch: nearest members chain them together, centroids do not.
    X, y = make_blobs(300, centers=[[0, 0], [4.2, 0], [0, 4.2]], cluster_std=0.9, random_state=1)
    assert adjusted_rand_index(y, Hierarchical(3, linkage="centroid").fit_predict(X)) > 0.85
    assert adjusted_rand_index(y, Hierarchical(3, linkage="single").fit_predict(X)) < 0.1
    X, y = make_circles(400, factor=0.4, noise=0.03, random_state=1)
    assert adjusted_rand_index(y, Hierarchical(2, linkage="single").fit_predict(X)) == 1
    assert adjusted_rand_index(y, Hierarchical(2, linkage="centroid").fit_predict(X)) < 0.5
    polar = np.hypot(X[:, :1], X[:, 1:])  # in polar coordinates circles are convex
    assert adjusted_rand_index(y, Hierarchical(2, linkage="centroid").fit_predict(polar)) == 1


def test_sets_cluster_by_jaccard_distance():
    sets = [["tea", "milk"], ["tea", "milk", "rum"], ["oil"], ["oil", "salt"], ["oil", "salt"]]
    model = Hierarchical(2, metric="jaccard").fit(sets)
    assert model.labels_.tolist() == [0, 0, 1, 1, 1]
    assert model.clustroids_.tolist() == [0, 3]
    assert not hasattr(model, "centroids_")
    first, second = np.triu_indices(5, 1)
    pairs = row_distances([sets[i] for i in first], [sets[j] for j in second], "jaccard")
    for linkage in ("single", "complete", "average"):
        heights = fit(sets, linkage, metric="jaccard").merges_[:, 2]
        np.testing.assert_allclose(heights, hierarchy.linkage(pairs, linkage)[:, 2])


def check_metric(rows, metric):
    """All distances are those of `distances`, and merges those of SciPy by them."""
    first, second = np.triu_indices(len(rows), 1)
    pairs = row_distances([rows[i] for i in first], [rows[j] for j in second], metric)
    matrix = distances_of(Hierarchical(), rows, metric).matrix()
    np.testing.assert_allclose(matrix, squareform(pairs), atol=1e-12)
    assert (matrix == matrix.T).all()
    some = np.array([4, 1, 7])
    part = distances_of(Hierarchical(), rows, metric).matrix(some)
    np.testing.assert_array_equal(part, matrix[np.ix_(some, some)])
    heights = fit(rows, "single", metric=metric).merges_[:, 2]  # the same however ties are broken
    np.testing.assert_allclose(heights, hierarchy.linkage(pairs, "single")[:, 2], atol=1e-12)


@pytest.mark.parametrize("most", [1 << 20, 7])
def test_texts_cluster_by_edit_distance_with_any_number_of_pairs_at_a_time(most, monkeypatch):
    monkeypatch.setattr(distance_matrix, "PAIRS", most)
    draws = np.random.default_rng(0)
    texts = ["".join(draws.choice(list("abcd"), draws.integers(0, 90))) for _ in range(40)]
    check_metric(texts, "edit")


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan", "hamming"])
def test_vectors_cluster_by_the_distances_of_similar_items(metric):
    X = np.random.default_rng(0).integers(-3, 4, (140, 6)).astype(float)
    X[3] = 0
    check_metric(X, metric)


@pytest.mark.parametrize("definition", ["mean", "squares", "largest"])
def test_clustroids_are_the_closest_members_and_centroids_the_means(definition):
    X = points(50, 2, 5)
    model = Hierarchical(4, linkage="clustroid", clustroid=definition).fit(X)
    D = squareform(pdist(X))
    for g in range(4):
        members = np.flatnonzero(model.labels_ == g).tolist()
        assert model.clustroids_[g] == clustroid(D, members, definition)
        np.testing.assert_allclose(model.centroids_[g], X[members].mean(axis=0))
    assert not hasattr(Hierarchical(4, linkage="average").fit(X), "clustroids_")


# Stopping.


def widths(X, labels):
    return [
        max(pdist(X[labels == g])) if (labels == g).sum() > 1 else 0.0
        for g in range(labels.max() + 1)
    ]


@pytest.mark.parametrize(
    "options",
    [{"linkage": each} for each in ("single", "complete", "average", "centroid", "clustroid")]
    + [{"method": "divisive"}],
)
def test_stopping_by_diameter_is_before_the_first_merge_that_is_too_wide(options):
    X = points(60, 2, 2)
    for threshold in (0.0, 0.3, 1.0, 2.0, 100.0):
        model = Hierarchical(None, stop="diameter", threshold=threshold, **options).fit(X)
        assert max(widths(X, model.labels_)) <= threshold
        if model.applied_ < len(model.merges_):
            sets = merged_sets(model.merges_)
            union = sorted(sets[model.applied_][0])
            assert max(pdist(X[union])) > threshold
        else:
            assert model.n_clusters_ == 1


def density(X, members, power):
    return len(members) / max(pdist(X[members])) ** power


@pytest.mark.parametrize("linkage", ["single", "average", "density", "centroid"])
def test_stopping_by_density_is_before_the_first_merge_that_is_too_sparse(linkage):
    X = points(60, 2, 4)
    for threshold in (1e-9, 3.0, 20.0, 1e9):
        options = {"stop": "density", "threshold": threshold, "power": 1.5}
        model = Hierarchical(None, linkage=linkage, **options).fit(X)
        sets = [sorted(members) for members, _ in merged_sets(model.merges_)]
        sparse = [density(X, members, 1.5) < threshold for members in sets]
        assert model.applied_ == (sparse.index(True) if any(sparse) else 59)


def test_divisive_splits_until_no_cluster_is_too_sparse():
    X = points(60, 2, 4)
    for threshold in (1e-9, 5.0, 30.0, 1e9):
        model = Hierarchical(None, method="divisive", stop="density", threshold=threshold).fit(X)

        def good(labels, threshold=threshold):
            groups = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
            return all(len(g) == 1 or density(X, g, 2) >= threshold for g in groups)

        assert good(model.labels_)
        if model.n_clusters_ > 1:  # one split fewer would not do
            fewer = Hierarchical(model.n_clusters_ - 1, method="divisive").fit(X)
            assert not good(fewer.labels_)


def test_stopping_at_a_jump_finds_the_number_of_blobs():
    X, y = make_blobs(
        200, centers=[[0, 0], [9, 0], [0, 9], [9, 9]], cluster_std=0.5, random_state=2
    )
    for options in ({"linkage": "average"}, {"linkage": "centroid"}, {"method": "divisive"}):
        for threshold in (None, 3.5):
            model = Hierarchical(None, stop="jump", threshold=threshold, **options).fit(X)
            assert model.n_clusters_ == 4, (options, threshold)
            assert adjusted_rand_index(y, model.labels_) == 1
    assert Hierarchical(6, linkage="average", stop="jump").fit(X).n_clusters_ == 6  # the fewest
    heights = Hierarchical(1, linkage="average").fit(X).merges_[:, 2]
    few = Hierarchical(None, linkage="average", stop="jump", threshold=1.0).fit(X)
    assert few.applied_ == int((heights > heights.mean() + heights.std(ddof=1)).argmax())


# Bad and small input.


def test_one_and_two_rows():
    model = Hierarchical(1).fit([[3.0, 4.0]])
    assert model.labels_.tolist() == [0]
    assert model.merges_.shape == (0, 4)
    assert Hierarchical(None, stop="jump").fit([[3.0, 4.0]]).n_clusters_ == 1
    for options in ({}, {"method": "divisive"}, {"linkage": "single"}, {"linkage": "density"}):
        pair = Hierarchical(1, **options).fit([[0.0, 0.0], [3.0, 4.0]])
        assert pair.merges_[0, :2].tolist() == [0, 1]
        assert pair.labels_.tolist() == [0, 0]
        assert Hierarchical(2, **options).fit_predict([[0.0, 0.0], [3.0, 4.0]]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "options",
    [{"linkage": each} for each in ("single", "complete", "average", "centroid", "clustroid")]
    + [{"linkage": "density"}, {"linkage": "within"}, {"method": "divisive"}],
)
def test_duplicates_and_constant_columns_are_defined(options):
    X = np.repeat([[0.0, 7.0], [1.0, 7.0], [5.0, 7.0]], 5, axis=0)
    model = Hierarchical(3, **options).fit(X)
    assert model.labels_.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert hierarchy.is_valid_linkage(model.merges_)
    assert np.isfinite(model.merges_).all()
    same = Hierarchical(2, **options).fit(np.ones((6, 2)))
    assert same.n_clusters_ == 2
    assert not same.merges_[:, 2].any()


def test_invalid_input_is_refused_with_a_sentence_and_nothing_changes():
    model = Hierarchical(2).fit(points(5))
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match="row 1, column 0 is NaN, inf or larger"):
        model.fit([[0.0, 1.0], [np.nan, 1.0]])
    with pytest.raises(ParameterError, match=r"at most the number of rows \(n_samples=1\), not 2"):
        model.fit([[1.0, 2.0, 3.0]])
    assert model.__dict__ == before
    with pytest.raises(ParameterError, match=r"memory_limit must be at least 800 bytes .* CURE"):
        Hierarchical(2, memory_limit=799).fit(points(10))
    Hierarchical(2, memory_limit=800).fit(points(10))
    Hierarchical(2, memory_limit=1, linkage="single").fit(points(10))  # O(n) memory
    for stopped in ({"stop": "diameter", "threshold": 1.0}, {"metric": "cosine"}):
        with pytest.raises(ParameterError, match="memory_limit"):
            Hierarchical(2, memory_limit=1, linkage="single", **stopped).fit(points(10))


@pytest.mark.parametrize(
    "options",
    [
        {"linkage": "average", "stop": "diameter", "threshold": 1.0},
        {"linkage": "centroid", "stop": "density", "threshold": 1.0},
        {"linkage": "clustroid", "clustroid": "squares"},
        {"metric": "manhattan", "clustroid": "squares"},
        {"metric": "cosine", "linkage": "complete"},
        {"method": "divisive"},
    ],
)
def test_no_more_than_one_matrix_is_in_memory(options):
    X, n = points(900, 4), 900
    Hierarchical(2, **options).fit(X[:5])  # compiles
    tracemalloc.start()
    Hierarchical(2, **options).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 8 * n * n <= peak < 1.2 * 8 * n * n
    if "metric" not in options:
        tracemalloc.start()
        Hierarchical(2, linkage="single").fit(X)
        assert tracemalloc.get_traced_memory()[1] < 600 * n
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_clusters": None}, "n_clusters must be given unless there is a stop"),
        ({"threshold": 1.0}, "stop must be given with a threshold"),
        ({"stop": "diameter"}, "threshold must be given to stop by diameter"),
        ({"method": "divisive", "linkage": "single"}, "linkage must be 'auto' for the divisive"),
        ({"linkage": "centroid", "metric": "cosine"}, "use 'clustroid'"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Hierarchical(**options).fit(points(5))


@pytest.mark.parametrize("name", sorted(Hierarchical.LIMITS))
def test_every_limit_of_a_parameter_is_checked(name):
    for value in Hierarchical.LIMITS[name].bad():
        options = {"stop": "jump", name: value} if name == "threshold" else {name: value}
        with pytest.raises(ParameterError, match=f"Hierarchical: {name} must be"):
            Hierarchical(**options).fit(points(5))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([[0.0, 1.0]], "must be square"),
        ([[0.0, 1.0], [2.0, 0.0]], "must be symmetric"),
        ([[0.0, -1.0], [-1.0, 0.0]], "from 0 up"),
        ([[1.0, 1.0], [1.0, 0.0]], "0 on the diagonal"),
    ],
)
def test_given_distances_must_be_distances(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Hierarchical(1, metric="precomputed").fit(given)


@pytest.mark.parametrize("metric", ["jaccard", "edit"])
def test_no_rows_are_refused(metric):
    with pytest.raises(ValueError, match="at least one row"):
        Hierarchical(1, metric=metric).fit([])


def test_equal_distances_are_split_one_by_one():
    # Disjoint sets are all at distance 1; a cubic time would be minutes.
    sets = [[f"item {i}"] for i in range(3000)]
    merges = fit(sets, method="divisive", metric="jaccard").merges_
    assert (merges[:, 2] == 1).all()
    assert (merges[:, 3] == np.arange(2, 3001)).all()
    assert not fit(np.ones((3000, 2)), method="divisive").merges_[:, 2].any()


def test_equal_heights_are_merged_whatever_the_ties():
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    for linkage in ("single", "complete", "average", "centroid"):
        merges = fit(grid, linkage).merges_
        assert hierarchy.is_valid_linkage(merges)
        assert merges[-1, 3] == 36
    np.testing.assert_allclose(fit(grid, "single").merges_[:, 2], 1.0)

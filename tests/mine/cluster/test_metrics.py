"""Measures of agreement: as of scikit-learn and of pairs counted one by one, for any labels."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics as peers

from sfumato.errors import NullValueError, ParameterError
from sfumato.mine.cluster import (
    adjusted_rand_index,
    entropy,
    neighbourhood_side,
    purity,
    rand_index,
)

ALL = (purity, entropy, rand_index, adjusted_rand_index)


def labellings(count=60):
    draws = np.random.default_rng(0)
    for _ in range(count):
        n, a, b = draws.integers(1, 40), draws.integers(1, 6), draws.integers(1, 6)
        yield draws.integers(a, size=n), draws.integers(b, size=n)


def test_rand_indices_are_those_of_pairs_and_of_scikit_learn():
    for classes, clusters in labellings():
        pairs = list(itertools.combinations(range(len(classes)), 2))
        agree = sum((classes[i] == classes[j]) == (clusters[i] == clusters[j]) for i, j in pairs)
        expected = agree / len(pairs) if pairs else 1.0
        assert rand_index(classes, clusters) == pytest.approx(expected)
        assert rand_index(classes, clusters) == pytest.approx(peers.rand_score(classes, clusters))
        theirs = peers.adjusted_rand_score(classes, clusters)
        assert adjusted_rand_index(classes, clusters) == pytest.approx(theirs, abs=1e-12)
        assert adjusted_rand_index(clusters, classes) == adjusted_rand_index(classes, clusters)


def test_purity_and_entropy_are_those_of_each_cluster():
    for classes, clusters in labellings():
        pure, bits = {}, {}
        for g in np.unique(clusters).tolist():
            counts = np.bincount(classes[clusters == g])
            share = counts[counts > 0] / counts.sum()
            pure[g], bits[g] = share.max(), -(share * np.log2(share)).sum()
        weights = [np.mean(clusters == g) for g in pure]
        assert purity(classes, clusters, per_cluster=True) == pytest.approx(pure)
        assert entropy(classes, clusters, per_cluster=True) == pytest.approx(bits, abs=1e-12)
        overall = np.average(list(pure.values()), weights=weights)
        assert purity(classes, clusters) == pytest.approx(overall)
        # The entropy of classes less their mutual information with clusters, in bits.
        shared = peers.mutual_info_score(classes, clusters) / math.log(2)
        p = np.bincount(classes) / classes.size
        alone = -(p[p > 0] * np.log2(p[p > 0])).sum()
        assert entropy(classes, clusters) == pytest.approx(alone - shared, abs=1e-9)


def test_the_adjusted_index_is_zero_on_average():
    draws = np.random.default_rng(1)
    classes = np.repeat([0, 1, 2], [50, 30, 20])
    found = [adjusted_rand_index(classes, draws.permutation(classes)) for _ in range(400)]
    error = np.std(found) / 20
    assert abs(np.mean(found)) < 5 * error  # fails with p < 1e-6
    assert error < 0.002


def test_labels_may_be_anything():
    classes, clusters = ["a", "a", "b", "b"], [9, 9, 9, 1]
    forms = [
        np.array(classes),
        np.array(classes, object),
        pa.array(classes),
        pa.chunked_array([classes[:1], classes[1:]]),
        pa.array(classes).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 0, 2, 2], ["a", "unused", "b"]),
        [True, True, False, False],
        [0.5, 0.5, 1.5, 1.5],
    ]
    pandas = pytest.importorskip("pandas")
    forms += [pandas.Series(classes, index=[3, 1, 2, 0]), pandas.Categorical(classes)]
    for function in ALL:
        for form in forms:
            assert function(form, clusters) == function(classes, np.array(clusters))
    assert purity(classes, ["x", "x", "x", "y"], per_cluster=True) == {"x": 2 / 3, "y": 1.0}


def test_a_million_rows_are_counted_exactly():
    labels = np.arange(2_000_000) % 2
    assert rand_index(labels, 1 - labels) == 1.0
    assert adjusted_rand_index(labels, 1 - labels) == 1.0
    assert rand_index(labels, np.zeros_like(labels)) == pytest.approx(999_999 / 1_999_999)


@pytest.mark.parametrize("function", ALL)
def test_invalid_labels_are_refused(function):
    with pytest.raises(ValueError, match=f"{function.__name__}: classes has 2 rows and clusters 1"):
        function([1, 2], [1])
    with pytest.raises(ValueError, match="at least one row"):
        function([], [])
    with pytest.raises(NullValueError, match="clusters: row 1 is null"):
        function([1, 2], ["a", None])
    with pytest.raises(TypeError, match="classes must be one column of labels of one type"):
        function([1, "a"], [1, 2])
    with pytest.raises(ValueError, match="one column, not of shape"):
        function(np.ones((2, 2)), [1, 2])


def test_neighbours_are_far_in_many_dimensions():
    # Course: 10 of a million points need a square of side .0032, and 19.3 % of the range at d = 7.
    assert round(neighbourhood_side(10 / 10**6, 2), 4) == 0.0032
    assert round(neighbourhood_side(10 / 10**6, 7), 3) == 0.193
    rows = np.random.default_rng(0).random((200_000, 3))
    inside = (rows < neighbourhood_side(0.01, 3)).all(axis=1).sum()
    assert abs(inside - 2000) < 5 * math.sqrt(2000)  # fails with p < 1e-6
    for bad in ((0.0, 2), (1.0, 2), (0.5, 0)):
        with pytest.raises(ParameterError):
            neighbourhood_side(*bad)

"""The n best of panels are what sorting all scores gives."""

import numpy as np
import pytest

from sfumato.kernels import top_k as top
from sfumato.kernels.alignment import aligned


def panels_of(vectors):
    count = -(-len(vectors) // top.WIDE)
    out = aligned((count, vectors.shape[1], top.WIDE), np.float32)
    for i, vector in enumerate(vectors):
        out[i // top.WIDE, :, i % top.WIDE] = vector
    return out


def barred_of(size, count):
    bits = np.arange(count * top.WIDE) >= size
    return np.packbits(bits, bitorder="little").view(np.uint32)[None]


def best(vectors, queries, barred, n):
    places = np.full((len(queries), n), -1, np.int64)
    scores = np.full((len(queries), n), -np.inf, np.float32)
    top.best(panels_of(vectors), queries, barred, places, scores)
    return places, scores


@pytest.mark.parametrize(("size", "n"), [(1, 1), (31, 5), (32, 32), (33, 40), (200, 7)])
def test_best_is_the_head_of_the_sorted_scores(size, n):
    rng = np.random.default_rng(size)
    # Small integers: every sum is exact, and there are many ties.
    vectors = rng.integers(-3, 4, (size, 5)).astype(np.float32)
    queries = rng.integers(-3, 4, (8, 5)).astype(np.float32)
    places, scores = best(vectors, queries, barred_of(size, -(-size // top.WIDE)), n)
    every = queries @ vectors.T
    order = np.argsort(-every, axis=1, kind="stable")[:, :n]
    retained = order.shape[1]
    np.testing.assert_array_equal(places[:, :retained], order)
    np.testing.assert_array_equal(scores[:, :retained], np.take_along_axis(every, order, 1))
    assert (places[:, retained:] == -1).all()
    assert (scores[:, retained:] == -np.inf).all()


def test_every_gives_the_same_bits_as_best():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(70, 9)).astype(np.float32)
    queries = rng.normal(size=(4, 9)).astype(np.float32)
    panels = panels_of(vectors)
    every = np.empty((4, 96), np.float32)
    top.every(panels, queries, every)
    places, scores = best(vectors, queries, barred_of(70, 3), 70)
    np.testing.assert_array_equal(np.take_along_axis(every, places, 1), scores)
    np.testing.assert_allclose(every[:, :70], queries @ vectors.T, atol=1e-5)


def test_nan_never_enters_the_list():
    vectors = np.ones((3, 2), np.float32)
    vectors[1] = np.nan
    places, _ = best(vectors, np.ones((4, 2), np.float32), barred_of(3, 1), 3)
    np.testing.assert_array_equal(places, [[0, 2, -1]] * 4)


def test_bar_sets_the_bits_of_places():
    barred = np.zeros((3, 2), np.uint32)
    top.bar(np.array([0, 2, 3]), np.array([0, 33, 31]), np.array([1, -1, 0]), barred)
    np.testing.assert_array_equal(barred, [[1 << 31, 0], [0, 0], [1, 2]])


@pytest.mark.parametrize("count", [1, 3, 4, 6])
@pytest.mark.parametrize("size", [5, 32, 70, 129, 200])
def test_scores_of_a_query_do_not_depend_on_how_many_there_are(size, count):
    rng = np.random.default_rng(size + count)
    panels = panels_of(rng.normal(size=(size, 9)).astype(np.float32))
    queries = rng.normal(size=(8, 9)).astype(np.float32)
    together, some = np.empty((2, 8, 32 * len(panels)), np.float32)
    top.every(panels, queries, together)
    top.every(panels, queries[:count], some)
    np.testing.assert_array_equal(some[:count], together[:count])

"""The largest of a row are the head of its sorted values, ties in order of place."""

import numpy as np
import pytest

from sfumato.kernels import top_k as largest


@pytest.mark.parametrize("n", [1, 2, 7, 60, 100])
def test_largest_is_the_head_of_a_stable_sort(n):
    # Few different values, so that ties stand on both sides of every cut.
    values = np.random.default_rng(n).integers(0, 9, (20, 60)).astype(float)
    places, scores = np.full((20, n), -1), np.full((20, n), -np.inf)
    largest.largest(values, places, scores)
    order = np.argsort(-values, axis=1, kind="stable")[:, :n]
    np.testing.assert_array_equal(places[:, :60], order)
    np.testing.assert_array_equal(scores[:, :60], np.take_along_axis(values, order, axis=1))
    assert (places[:, 60:] == -1).all()
    assert (scores[:, 60:] == -np.inf).all()


def test_neither_nan_nor_minus_infinity_has_a_place():
    values = np.array([[np.nan, 1.0, -np.inf, 2.0, np.nan]])
    places, scores = np.full((1, 4), -1), np.full((1, 4), -np.inf)
    largest.largest(values, places, scores)
    assert places.tolist() == [[3, 1, -1, -1]]
    assert scores.tolist() == [[2.0, 1.0, -np.inf, -np.inf]]

"""Distances satisfy the axioms, and edit distances are those of the table of all prefixes."""

import numpy as np
import pytest

from sfumato.mine.similar import distances
from sfumato.mine.similar.row_distances import METRICS


def table_distance(a, b):
    """The edit distance by the full dynamic program."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        below = [i]
        for j, y in enumerate(b, 1):
            below.append(min(below[-1] + 1, row[j] + 1, row[j - 1] + (x != y)))
        row = below
    return row[-1]


def columns(metric, draws, n=150):
    """Three columns of rows, some of them equal."""
    if metric == "jaccard":
        made = [[draws.choice(9, draws.integers(0, 6)).tolist() for _ in range(n)] for _ in "abc"]
    elif metric == "edit":
        made = [
            ["".join(draws.choice(list("abé"), draws.integers(0, 9))) for _ in range(n)]
            for _ in "abc"
        ]
    else:
        made = [draws.integers(-2, 3, (n, 4)).tolist() for _ in "abc"]
    made[1][:20] = made[0][:20]
    return made


@pytest.mark.parametrize("metric", METRICS)
def test_distances_satisfy_the_axioms(metric):
    x, y, z = columns(metric, np.random.default_rng(0))
    xy, yx, xz, zy = (distances(a, b, metric) for a, b in ((x, y), (y, x), (x, z), (z, y)))
    assert (xy >= 0).all()
    assert (xy[:20] == 0).all()
    np.testing.assert_array_equal(xy, yx)
    assert (xy <= xz + zy + 1e-12).all()
    assert (xz + zy - xy).min() < 0.5  # the inequality is not just far from tight
    if metric not in ("jaccard", "cosine"):
        different = np.array([a != b for a, b in zip(x, y, strict=True)])
        assert ((xy > 0) == different).all()


def test_values_by_hand():
    assert distances([["a", "b"], []], [["b", "c"], []], "jaccard").tolist() == [1 - 1 / 3, 0]
    left = [[1, 0], [1, 0], [1, 1], [0, 0], [0, 0]]
    right = [[0, 3], [-2, 0], [2, 2], [1, 0], [0, 0]]
    np.testing.assert_allclose(distances(left, right, "cosine"), [0.5, 1, 0, 0.5, 0])
    assert distances([[1, 2]], [[4, -2]], "manhattan").tolist() == [7]
    assert distances([[1, 2]], [[4, -2]], "euclidean").tolist() == [5]
    assert distances([[1, 2, 3]], [[1, 0, 0]], "hamming").tolist() == [2]
    assert distances(["kitten", "", "é"], ["sitting", "ab", "e"], "edit").tolist() == [3, 2, 1]


def test_small_angles_are_accurate():
    turned = np.array([[1.0, 1e-9], [1.0, 1e-12]])
    np.testing.assert_allclose(
        distances([[1, 0], [1, 0]], turned, "cosine") * np.pi, [1e-9, 1e-12], rtol=1e-3
    )


def test_edit_distances_are_those_of_the_table():
    draws = np.random.default_rng(1)
    left = ["".join(draws.choice(list("abcé😀"), draws.integers(0, 200))) for _ in range(120)]
    right = ["".join(draws.choice(list("abcé😀"), draws.integers(0, 200))) for _ in range(80)]
    right += [text[:3] + "x" + text[5:] for text in left[80:]]
    expected = [table_distance(a, b) for a, b in zip(left, right, strict=True)]
    assert distances(left, right, "edit").tolist() == expected
    assert max(map(len, left)) > 128  # texts of several words of 64 characters


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        distances([[1, 2]], [[1, 2, 3]], "euclidean")
    with pytest.raises(ValueError, match="left has 1 rows and right 2"):
        distances(["a"], ["a", "b"], "edit")
    with pytest.raises(ValueError, match="distances: metric"):
        distances([[1]], [[1]], "chebyshev")

"""Rows are read the same from every container; a bad one is named by its row, not its value."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.arrays import rows, top_n

MATRIX = np.array([[1.5, -2, 3], [0, 5, 6.25]])
LISTS = MATRIX.tolist()


@pytest.mark.parametrize(
    "values",
    [
        LISTS,
        [tuple(row) for row in LISTS],
        MATRIX,
        np.asfortranarray(MATRIX),
        np.repeat(MATRIX, 2, axis=1)[:, ::2],
        MATRIX.astype(np.float32),
        MATRIX.astype(">f8"),
        pd.DataFrame(MATRIX),
        pl.DataFrame(MATRIX),
        pl.Series(LISTS, dtype=pl.Array(pl.Float64, 3)),
        pl.Series(LISTS),
        pa.table(pd.DataFrame(MATRIX, columns=list("abc"))),
        pa.RecordBatch.from_pandas(pd.DataFrame(MATRIX, columns=list("abc"))),
        pa.array([[9, 9, 9], *LISTS], pa.list_(pa.float64(), 3))[1:],
        pa.chunked_array([[row] for row in LISTS], pa.list_(pa.float32(), 3)),
        pa.array(LISTS),
    ],
    ids=lambda values: type(values).__module__ + "." + type(values).__name__,
)
def test_every_container_gives_the_same_matrix(values):
    got = rows("X", values, 3)
    np.testing.assert_array_equal(got, MATRIX)
    assert got.dtype == np.float64
    assert got.flags.c_contiguous


def test_whole_numbers_and_truth_values_are_numbers():
    for kind in (np.int8, np.uint64, bool):
        np.testing.assert_array_equal(rows("X", np.ones((2, 3), kind), 3), np.ones((2, 3)))


@pytest.mark.parametrize("empty", [[], np.empty((0, 3)), pa.array([], pa.list_(pa.float64(), 3))])
def test_no_rows_are_a_matrix_of_no_rows(empty):
    assert rows("X", empty, 3).shape == (0, 3)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([[1, 2, 3], [4, np.nan, 6]], ValueError, "X: .*finite.*row 1, column 1 is not"),
        ([[1, 2, 3], [4, 5, -np.inf]], ValueError, "row 1, column 2"),
        ([[1, 2, 1e151]], ValueError, "1e.150.*row 0, column 2"),
        ([[1, 2]], ValueError, "3 columns .*not 2"),
        ([[], []], ValueError, "3 columns .*not 0"),
        ([[1, 2, 3], [1, 2]], ValueError, "row 1 has 2 columns, row 0 3"),
        ([1, 2, 3], ValueError, "matrix, not 1 dimensions"),
        (np.ones((2, 3, 1)), ValueError, "matrix, not 3 dimensions"),
        ([[1, 2, "secret"]], TypeError, "numbers are expected, not str"),
        ([[1, 2, 3], [1, None, 3]], ValueError, "row 1, column 1 is not"),
        (pd.DataFrame({"a": [1], "b": ["secret"], "c": [2]}), TypeError, "str at row 0, column 1"),
        (pl.DataFrame({"a": [1], "b": [None], "c": [2]}), (TypeError, ValueError), "row 0"),
        (pa.array([[1, 2, 3], None], pa.list_(pa.int64(), 3)), ValueError, "row 1 is null"),
        (pa.array([[1, None, 3]], pa.list_(pa.int64(), 3)), ValueError, "row 0, column 1"),
        (pa.array([[1], [1, 2]]), ValueError, "equally long, not 1, 2"),
        (pa.array([1.0, 2.0]), TypeError, "column of lists is expected, not double"),
        (None, (TypeError, ValueError), "X: "),
        (np.ones((1, 3), complex), TypeError, "complex"),
    ],
)
def test_bad_rows_are_named_by_place(values, error, message):
    with pytest.raises(error, match=message) as raised:
        rows("X", values, 3)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("n", [0, 1, 3, 6, 7, 12, 15])  # a heap up to half of the columns, a sort
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_largest_come_first_and_equal_ones_by_their_position(n, kind):
    draws = np.random.default_rng(0)
    scores = draws.choice([-np.inf, np.nan, -1.0, 0.0, 0.5, 2.0], (200, 12)).astype(kind)
    positions, found = top_n(scores, n)
    assert found.dtype == kind
    for row, selected, values in zip(scores.tolist(), positions, found, strict=True):
        # NaN is above nothing, so that only true numbers are left.
        want = sorted((-score, at) for at, score in enumerate(row) if score > -np.inf)[:n]
        lacking = n - len(want)
        assert selected.tolist() == [at for _, at in want] + [-1] * lacking
        assert values.tolist() == [-score for score, _ in want] + [-np.inf] * lacking

"""Many sets at once: columns of lists or offsets, and offsets that do not describe sets."""

import decimal
import time
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.kernels.sketch.minhash import EMPTY
from sfumato.sketch import MinHash


def test_columns_of_lists_are_sets():
    lists = [[1, 2, 3], [], [4], [5, 6]]
    want = MinHash(20).signatures([1, 2, 3, 4, 5, 6], [0, 3, 3, 4, 6])
    arrow = pa.array(lists, pa.large_list(pa.int64()))
    slices = pa.array([[9], *lists, [9, 9]]).slice(1, 4)
    chunks = pa.chunked_array([arrow.slice(0, 2), arrow.slice(2)])
    for column in (lists, pa.array(lists), arrow, slices, chunks, pl.Series(lists)):
        np.testing.assert_array_equal(MinHash(20).signatures(column), want)
    for none in ([], [[], []], pa.array([[], []])):
        got = MinHash(20).signatures(none)
        np.testing.assert_array_equal(got, np.full((len(none), 20), EMPTY))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 5], "never fall; the one in row 2 does"),
        ([1, 5], "from 0 to the 5 tokens, not 1 to 5"),
        ([0, 4], "from 0 to the 5 tokens, not 0 to 4"),
        ([0, 6], "from 0 to the 5 tokens, not 0 to 6"),
        ([-1, 5], "from 0 to the 5 tokens"),
        ([], "one column of integers"),
        ([[0, 5]], "one column of integers"),
        ([0.0, 5.0], "one column of integers"),
    ],
)
def test_wrong_offsets_are_named(offsets, message):
    with pytest.raises((TypeError, ValueError), match=f"MinHash: offsets must .*{message}"):
        MinHash().signatures([1, 2, 3, 4, 5], offsets)


def test_unsigned_offsets_that_fall_are_found():
    with pytest.raises(ValueError, match="row 2"):
        MinHash().signatures([1, 2, 3], np.array([0, 2, 1, 3], np.uint32))


def test_integers_of_2_to_the_63_and_more_are_tokens_of_lists():
    lists = [[2**63, 1], [], [2**64 - 1]]
    want = MinHash(20).signatures(np.array([2**63, 1, 2**64 - 1], np.uint64), [0, 2, 2, 3])
    for column in (lists, iter(lists), pd.Series(lists)):
        np.testing.assert_array_equal(MinHash(20).signatures(column), want)


def test_rows_of_a_matrix_are_sets():
    matrix = np.arange(6).reshape(2, 3)
    want = MinHash(20).signatures(matrix.ravel(), [0, 3, 6])
    np.testing.assert_array_equal(MinHash(20).signatures(matrix), want)


@pytest.mark.parametrize(
    "other", [["guest"], [1, "guest"], [0.5], [None], None, "guest", 7, [2**64], [-1, 2**63], [[1]]]
)
def test_a_set_of_another_type_changes_no_other_signature(other):
    sketch, sets = MinHash(20), [[7, 2**53 + 1], [], [-3]]
    want = sketch.signatures(sets)
    for column in ([*sets, other], pd.Series([*sets, other])):
        np.testing.assert_array_equal(sketch.signatures(column)[:3], want)
    texts = [[str(key) for key in row] for row in sets]
    np.testing.assert_array_equal(sketch.signatures(texts), want)


def test_rows_that_are_no_lists_are_empty_sets():
    want = MinHash(20).signatures([["tea"], []])
    for column in ([["tea"], None], [["tea"], "tea"], pa.array([["tea"], None])):
        np.testing.assert_array_equal(MinHash(20).signatures(column), want)
    # Nor is a list refused of which no other row is one: that would disclose those rows.
    for column in ([None], ["tea"], [7], pd.Series(["tea"], dtype=object)):
        np.testing.assert_array_equal(MinHash(20).signatures(column), want[1:])


def test_one_value_among_sets_neither_raises_nor_takes_long():
    sketch, huge = MinHash(20), decimal.Decimal("1e1000000")
    begin = time.process_time()
    for sets in ([[huge], [7]], pd.Series([[huge], [7]])):
        np.testing.assert_array_equal(sketch.signatures(sets), sketch.signatures([["inf"], [7]]))
    assert time.process_time() - begin < 5  # Arrow guesses a decimal's type for minutes
    for other in ([{"a": 1}], [[1]], [object()]):  # beside empty sets, which have no type
        np.testing.assert_array_equal(
            sketch.signatures([[], other]), sketch.signatures([[], [None]])
        )


@pytest.mark.parametrize(
    "sets", [np.array(["secret@mail"]), pa.array(["secret@mail"]), pa.array([1, 2]), 31415926]
)
def test_columns_that_are_not_lists_of_keys_are_refused_and_never_shown(sets):
    with pytest.raises(TypeError, match=r"MinHash: .*tokens") as raised:
        MinHash().signatures(sets)
    shown = "".join(traceback.format_exception(raised.value))  # with what led to it
    assert "secret" not in shown
    assert "31415926" not in shown

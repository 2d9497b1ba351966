"""Values: any kind of column gives the same texts and codes, and none is ever shown."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.telemetry.values import (
    Values,
    numbers,
    reported_column,
    reported_numbers,
    value_column,
)

TEXTS = ["tea", "", "Zürich", "tea", "日本", "", "tea"]
BYTES = [text.encode() for text in TEXTS]
CODED = pa.array(TEXTS).dictionary_encode()
TEXT_COLUMNS = {
    "list": TEXTS,
    "bytes": BYTES,
    "tuple": tuple(TEXTS),
    "numpy": np.array(TEXTS),
    "objects": np.array(TEXTS, object),
    "pandas": pd.Series(TEXTS),
    "categorical": pd.Series(TEXTS, dtype="category"),
    "polars": pl.Series(TEXTS),
    "polars categorical": pl.Series(TEXTS, dtype=pl.Categorical),
    "arrow": pa.array(TEXTS),
    "large": pa.array(TEXTS, pa.large_string()),
    "view": pa.array(TEXTS, pa.string_view()),
    "binary": pa.array(BYTES, pa.binary()),
    "binary view": pa.array(BYTES, pa.binary_view()),
    "slice": pa.array(["x", *TEXTS, "y"])[1:-1],
    "chunks": pa.chunked_array([TEXTS[:2], [], TEXTS[2:]]),
    "dictionary": CODED,
    "unused words": pa.DictionaryArray.from_arrays(
        CODED.indices, pa.array([*CODED.dictionary.to_pylist(), "unused"])
    ),
    "repeated words": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 4, 1, 3]), pa.array(["tea", "", "Zürich", "tea", "日本"])
    ),
    "dictionary of views": pa.DictionaryArray.from_arrays(
        CODED.indices, CODED.dictionary.cast(pa.string_view())
    ),
    "dictionary chunks": pa.chunked_array([CODED[:3], pa.array(TEXTS[3:]).dictionary_encode()]),
}
WHOLE = [5, -3, 0, 5, 2**62]
WHOLE_COLUMNS = {
    "list": WHOLE,
    "numpy": np.array(WHOLE),
    "swapped bytes": np.array(WHOLE, ">i8"),
    "strided": np.repeat(WHOLE, 2)[::2],
    "pandas": pd.Series(WHOLE),
    "polars": pl.Series(WHOLE),
    "chunks": pa.chunked_array([WHOLE[:1], WHOLE[1:]]),
    "dictionary": pa.array(WHOLE).dictionary_encode(),
}


def rows(values):
    texts = values.texts()
    return [texts[code] for code in values.codes]


@pytest.mark.parametrize("kind", TEXT_COLUMNS)
def test_every_kind_of_text_column_gives_its_bytes_and_each_text_once(kind):
    values = value_column(TEXT_COLUMNS[kind])
    assert rows(values) == BYTES
    assert sorted(values.texts()) == sorted(set(BYTES))


@pytest.mark.parametrize("kind", WHOLE_COLUMNS)
def test_integers_are_their_decimal_text(kind):
    values = value_column(WHOLE_COLUMNS[kind])
    assert rows(values) == [str(number).encode() for number in WHOLE]
    assert values.distinct == 4


def test_integers_of_any_width_and_sign_are_their_decimal_text():
    for column in ([2**64 - 1, 0], np.array([255, 7], np.uint8), np.array([-128, 127], np.int8)):
        assert rows(value_column(column)) == [str(int(number)).encode() for number in column]
    large, small = (pa.array([number], pa.uint64()) for number in (2**63 + 5, 7))
    for parts in ([large, small], [large.dictionary_encode(), small.dictionary_encode()]):
        found = value_column(pa.chunked_array(parts))
        assert rows(found) == [b"9223372036854775813", b"7"]


def test_an_empty_column_has_no_values():
    for column in ([], np.array([], np.int64), pa.array([], pa.string()), pd.Series([], dtype=str)):
        values = value_column(column)
        assert (values.distinct, values.codes.size) == (0, 0)
        assert numbers(np.array([])).size == numbers([]).size == 0


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["secret", None], "row 1 is null"),
        (pa.chunked_array([["secret"], ["secret", None]]), "row 2 is null"),
        (["secret", 5], "row 1"),
        ([1.5, 2.5], "row 0"),
        (["secret\ud800"], "valid Unicode"),
        ("secret", "a whole column is expected"),
    ],
)
def test_what_is_no_value_is_refused_by_its_position_and_never_shown(column, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        value_column(column)
    assert "secret" not in str(error.value)


NONE = [None, math.nan, pd.NA, pd.NaT, 7.5, 2.0**60, True, [1], {}, "\ud800", 10**5000, Fraction(7)]
NONE += [np.timedelta64(5, "s")]


@pytest.mark.parametrize("odd", NONE, ids=lambda odd: type(odd).__name__)
def test_what_is_no_value_is_reported_as_an_empty_text_and_changes_no_other(odd):
    for column in ([7, "tea", odd, "7"], np.array([7, "tea", odd, "7"], object)):
        values = reported_column(column)
        assert [values.texts()[code] for code in values.codes] == [b"7", b"tea", b"", b"7"]


@pytest.mark.parametrize(
    "column",
    [
        [7, 31, 7],
        ["7", 31, 7.0],
        ["7", np.int64(31), np.uint8(7)],  # a range would count up to these
        np.array([7, 31, 7], np.uint8),
        np.array([7.0, 31.0, 7.0]),
        np.array(["7", "31", "7"]),
        np.array([b"7", b"31", b"7"]),
        pd.Series([7, 31, 7], dtype="Int64"),
        pl.Series(["7", "31", "7"], dtype=pl.Categorical),
        pa.chunked_array([[7, 31], [7]]),
        pa.array(["7", "31", "7"]).dictionary_encode(),
        pa.array(["7", "31", "7"], pa.string_view()),
    ],
    ids=lambda column: type(column).__name__,
)
def test_values_are_reported_equally_whatever_the_column_is(column):
    values = reported_column(column)
    assert (values.texts(), values.codes.tolist()) == ([b"7", b"31"], [0, 1, 0])


def test_numbers_are_reported_each_by_itself():
    column = [1, "2.5", "-3e0", None, "x", math.inf, True, 10**400, -(10**400), "0x1", "", " 1"]
    found = reported_numbers(column)
    want = [1, 2.5, -3, math.nan, math.nan, math.inf, math.nan, math.inf, -math.inf]
    np.testing.assert_array_equal(found, [*want, *[math.nan] * 3])
    np.testing.assert_array_equal(reported_numbers(pa.array([1, None])), [1, math.nan])
    np.testing.assert_array_equal(reported_numbers(np.array([1, "x"])), [1, math.nan])
    np.testing.assert_array_equal(reported_numbers([1, np.timedelta64(5, "s")]), [1, math.nan])


def test_rows_of_arrow_that_python_cannot_have_change_no_other():
    ends = pa.py_buffer(np.array([0, 1, 2, 2], np.int32).tobytes())
    known = pa.py_buffer(bytes([0b011]))
    text = pa.Array.from_buffers(pa.string(), 3, [known, ends, pa.py_buffer(b"7\xff")])
    values = reported_column(text)
    assert [values.texts()[code] for code in values.codes] == [b"7", b"\xff", b""]
    np.testing.assert_array_equal(reported_numbers(text), [7, math.nan, math.nan])
    for far in (pa.array([2**62, 0], pa.timestamp("s")), pa.array([2**31 - 1, 0], pa.date32())):
        assert reported_column(far).texts() == [b""]
        assert np.isnan(reported_numbers(far)).all()


def test_values_have_no_readable_form():
    assert "tea" not in repr(value_column(["tea"]))
    assert isinstance(value_column(["tea"]).once(), Values)


@pytest.mark.parametrize(
    "column",
    [
        [1, 2.5, -3],
        (1, 2.5, -3),
        np.array([1, 2.5, -3], np.float32),
        pd.Series([1, 2.5, -3]),
        pl.Series([1.0, 2.5, -3.0]),
        pa.chunked_array([[1, 2.5], [-3.0]]),
    ],
)
def test_numbers_are_taken_from_any_kind_of_column(column):
    assert numbers(column).tolist() == [1, 2.5, -3]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, None], "row 1"),
        ([1.0, math.nan], "row 1"),
        (["1"], "column of numbers"),
        ([True], "column of numbers"),
        (np.zeros((2, 2)), "column of numbers"),
        (pl.Series([1.0, None]), "row 1"),
        (7, "column of numbers"),
    ],
)
def test_what_is_no_number_is_refused_by_its_position(column, message):
    with pytest.raises((TypeError, ValueError), match=message):
        numbers(column)


@pytest.mark.parametrize("value", ["tea", "", "\ud800", 7, -3, 2**64 - 1, 2**64, True, 7.0, None])
def test_one_value_is_reported_as_it_is_in_a_longer_column(value):
    one, two = reported_column([value]), reported_column([value, value])
    assert one.texts() == two.texts()
    assert (one.codes.tolist(), two.codes.tolist()) == ([0], [0, 0])

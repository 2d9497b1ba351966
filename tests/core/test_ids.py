"""What is missing in numbers is NaN whatever says so, and then refused as NaN is."""

import copy
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.ids import IdIndex, coded_integers, ids_of, numbers, plain_numbers, positions
from sfumato.data import Interactions
from sfumato.density import SketchDensity
from sfumato.retrieve import BinaryIndex
from sfumato.sketch import CosineSketch, CountMin, CountSketch, Moments
from sfumato.telemetry import Rappor, Reports

MISSING = {
    "masked": np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]),
    "masked integers": np.ma.array([1, 2, 3], mask=[False, True, False]),
    "None": [1, None, 3],
    "NA": [1.0, pd.NA, 3.0],
    "NaT": [1.0, pd.NaT, 3.0],
    "Int64": pd.Series([1, None, 3], dtype="Int64"),
    "Int64 array": pd.array([1, None, 3], dtype="Int64"),
    "Float64": pd.Series([1.0, None, 3.0], dtype="Float64"),
    "boolean": pd.Series([True, None, True], dtype="boolean"),
    "int64[pyarrow]": pd.Series([1, None, 3], dtype="int64[pyarrow]"),
    "objects": np.array([1, pd.NA, 3], object),
    "arrow": pa.array([1, None, 3]),
    "chunks": pa.chunked_array([[1], [None, 3]]),
    "polars": pl.Series([1, None, 3]),
}


@pytest.mark.parametrize("column", MISSING.values(), ids=MISSING)
def test_what_is_missing_is_nan(column):
    found = plain_numbers(column)
    assert found.dtype == np.float64
    assert np.isnan(found).tolist() == [False, True, False]
    assert found[0] == 1


@pytest.mark.parametrize("column", MISSING.values(), ids=MISSING)
def test_what_is_missing_is_refused_wherever_numbers_come_in(column):
    def matrix():
        if isinstance(column, np.ma.MaskedArray):
            return np.ma.column_stack([column, column])
        if isinstance(column, pd.Series):
            return pd.DataFrame({"a": column, "b": column})
        cells = column if isinstance(column, list) else list(plain_numbers(column))
        return [[cell, cell] for cell in cells]

    box = ([0.0, 0.0], [9.0, 9.0])
    for refused in (
        lambda: numbers(column, "ratings"),
        lambda: Interactions([1, 2, 3], [1, 2, 3], column),
        lambda: CountMin(8).update([1, 2, 3], column),
        lambda: CountSketch(8, cells="real").update([1, 2, 3], column),
        lambda: CosineSketch(8, dimension=2).update(matrix()),
        lambda: BinaryIndex(8).add([1, 2, 3], matrix()),
        lambda: SketchDensity(rows=4, width=4).fit(matrix()),
        lambda: SketchDensity(rows=4, width=4).fit(np.eye(3), sample_weight=column),
        lambda: Reports(
            Rappor(8, 2, 4, f=0.5), column, np.zeros((3, 1), np.uint8), np.zeros((3, 16), np.uint8)
        ),
    ):
        with pytest.raises((ValueError, TypeError)):
            refused()
    assert Moments(box).update(matrix()).size() == 2  # a private path leaves the row out


def test_nothing_missing_keeps_its_type():
    for column in (pd.Series([1, 2**62 + 1], dtype="Int64"), np.ma.array([1, 2**62 + 1])):
        assert plain_numbers(column).dtype == np.int64
        assert plain_numbers(column)[1] == 2**62 + 1
    assert plain_numbers(pd.Series([True], dtype="boolean")).dtype == bool
    frame = pd.DataFrame({"a": pd.Series([1, 2], dtype="Int64"), "b": [0.5, 1.5]})
    assert plain_numbers(frame).tolist() == [[1, 0.5], [2, 1.5]]
    assert CountMin(8).update([7, 7], pd.Series([1, 2], dtype="Int64")).total == 3


def test_dates_without_a_date_are_refused_by_their_row():
    for dates in (np.array(["2020-01-01", "NaT"], "M8[s]"), pd.Series([pd.Timestamp(0), pd.NaT])):
        with pytest.raises(ValueError, match=r"times: row 1 is (no date|null)"):
            numbers(dates, "times")


def test_texts_are_no_numbers_even_beside_missing_ones():
    assert plain_numbers(["a", None]).dtype == object
    with pytest.raises(TypeError, match="numbers are expected"):
        numbers(["a", None], "ratings")


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ([5, -3, 0, 2**62, -(2**63)], [0, -(2**63), 7, -3, 5, 5]),
        (list(range(3000)), [2999, 0, 3000, -1]),
        (["ann", "bob", "", "7"], ["bob", "", "7", "7.0", "carol", "bob"]),
        (["7", "7.0", "x"], ["7.0", "7", "x", "y"]),  # equal hashes
        (["ann"], [1, 2]),  # of another type: none
        ([], [1]),
    ],
)
def test_an_index_finds_what_positions_finds(column, wanted, monkeypatch):
    monkeypatch.setattr("sfumato.core.ids.MANY", 0)
    ids, ask = ids_of(column, "ids"), ids_of(wanted, "ids")
    index = IdIndex(ids)
    for each in (index, index, pickle.loads(pickle.dumps(index)), copy.copy(index)):
        np.testing.assert_array_equal(each.positions(ask), positions(ask, ids))


def test_the_table_of_an_index_is_not_pickled():
    index = IdIndex(np.arange(1000))
    before = pickle.dumps(index)
    index.positions(np.array([3]))
    assert pickle.dumps(index) == before


def test_few_integers_are_encoded_alike_with_and_without_the_compiler(monkeypatch):
    draw = np.random.default_rng(0).integers
    columns = [draw(-9, 9, 500), draw(0, 2**62, 500), np.empty(0, np.int64), np.arange(9)[::-2]]
    compiled = [coded_integers(np.ascontiguousarray(column)) for column in columns]
    monkeypatch.delitem(sys.modules, "numba")
    for column, (codes, distinct) in zip(columns, compiled, strict=True):
        few, found = coded_integers(column)
        np.testing.assert_array_equal(few, codes)
        np.testing.assert_array_equal(found, distinct)
        assert (few.dtype, found.dtype) == (codes.dtype, distinct.dtype)

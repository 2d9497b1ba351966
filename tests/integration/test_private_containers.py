"""What a container makes of one odd cell changes no other row, raises nothing, warns of nothing."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.arrays import private_points, without_rows
from sfumato.core.edge_columns import readable_edges, texts_of
from sfumato.core.row_values import ids_by_row, number_of, numbers_by_row
from sfumato.data.tables import read_one_by_one
from sfumato.mine.cluster import PrivateBFR, PrivateKMeans
from sfumato.mine.decompose import PrivatePCA
from sfumato.mine.rank import PrivateDegreeHistogram
from sfumato.privacy import BudgetExceeded, Ledger

DAYS = pa.array([0, 2**30], pa.int32()).cast(pa.date32())
BOX = ([0.0, 0.0], [9.0, 9.0])
NOT_UTF8 = pa.array([b"1", b"2", b"\xff"]).cast(pa.binary())
TEXTS = pa.Array.from_buffers(pa.large_string(), 3, pa.array(NOT_UTF8, pa.large_binary()).buffers())


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def columns():
    """Columns of 1, 2 and something odd."""
    yield "objects of polars", pl.Series([1, 2, object()], dtype=pl.Object)
    yield "complex of polars", pl.Series([1, 2, 3j], dtype=pl.Object)
    yield "128 bits of polars", pl.Series([1, 2, 2**70], dtype=pl.Int128)
    yield "text of pandas", pd.Series(pd.arrays.ArrowStringArray(pa.chunked_array([TEXTS])))
    yield "Arrow in pandas", pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([TEXTS])))
    yield "category of pandas", pd.Series(["1", "2", "x"], dtype="category")
    yield "Arrow", TEXTS
    yield "long doubles", np.array([1, 2, np.longdouble("1e4000")])
    signalling = np.array([0x3F800000, 0x40000000, 0x7F800001], np.uint32).view(np.float32)
    yield "signalling NaN", signalling


@pytest.mark.parametrize(("name", "column"), list(columns()), ids=[name for name, _ in columns()])
def test_numbers_and_ids_of_other_rows_stay(name, column):
    assert numbers_by_row(column, "x")[:2].tolist() == [1, 2]
    assert private_points("x", frame_of(column), 1)[:2].tolist() == [[1], [2]]
    assert [str(each) for each in ids_by_row(column, "x").to_pylist()[:2]] == ["1", "2"]
    (source, _), known = readable_edges((column, column))
    assert known[:2].all()
    assert texts_of(source).cast(pa.large_binary())[:2].to_pylist() == [b"1", b"2"]


def frame_of(column):
    """A table of one column, of the library that the column is of."""
    if isinstance(column, pl.Series):
        return pl.DataFrame({"a": column})
    if isinstance(column, pd.Series):
        return pd.DataFrame({"a": column})
    return pa.table({"a": column}) if isinstance(column, pa.Array) else column.reshape(-1, 1)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([0, 2**62], dtype=pl.Int64).cast(pl.Datetime("us")),
        pl.Series([0, 2**30], dtype=pl.Int32).cast(pl.Date),
        pl.Series([[1], [2]]),
        pl.Series([0, 2**62], dtype=pl.Int64).cast(pl.Duration("us")),
        pd.Series(
            pd.arrays.ArrowExtensionArray(pa.array([0, 2**30], pa.int32()).cast(pa.date32()))
        ),
    ],
    ids=["datetime", "date", "lists", "duration", "pandas"],
)
def test_dates_beyond_the_calendar_and_lists_raise_nothing(column):
    assert np.isnan(private_points("x", frame_of(column), 1)).all()
    if not isinstance(column.dtype, pl.List):
        readable_edges((column, column))


def test_texts_that_libraries_write_for_numbers_are_read_as_them():
    written = ["true", "False", "(1+0j)", "(1+2j)", "(x)", "(1)"]
    found = [number_of(text) for text in written]
    np.testing.assert_array_equal(found, [1, 0, 1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_rows_of_list_views_are_their_own(kind):
    values = pa.array(["1", "2", "3", "4"])
    size = pa.int32() if kind is pa.list_view else pa.int64()
    maker = pa.ListViewArray if kind is pa.list_view else pa.LargeListViewArray
    column = maker.from_arrays(pa.array([2, 0, 1], size), pa.array([2, 2, 2], size), values)
    for rows in (column, pa.chunked_array([column])):
        assert private_points("x", rows, 2).tolist() == [[3, 4], [1, 2], [2, 3]]
    assert private_points("x", column[1:], 2).tolist() == [[1, 2], [2, 3]]


def test_a_json_list_is_refused_and_lines_are_read(tmp_path):
    (tmp_path / "a.json").write_text('[{"a": 1}, {"a": 2}]')
    with pytest.raises(ValueError, match="one object per line"):
        list(read_one_by_one(tmp_path / "a.json", ["a"]))
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": ' + "9" * 5000 + '}\n{"a": 2}\n')
    cells = [cell for (part,) in read_one_by_one(tmp_path / "a.jsonl", ["a"]) for cell in part]
    assert cells[0] == 1
    assert cells[-1] == 2


class Unreadable(list):
    """Rows that must not be read."""

    def __iter__(self):
        raise AssertionError("the rows were read")

    def __getitem__(self, at):
        return [] if at == slice(None, 0) else super().__getitem__(at)


def models(ledger, release_id):
    paid = dict(ledger=ledger, dataset="rows", release_id=release_id)
    for kind in (PrivateKMeans, PrivateBFR):
        yield "event", lambda X, kind=kind: kind(2, 1.0, bounds=BOX).fit(X, **paid)
    yield "event", lambda X: PrivatePCA(1, epsilon=1.0, bounds=BOX, **paid).fit(X)
    yield "edge", lambda X: PrivateDegreeHistogram(1.0, max_degree=3).fit(X, **paid)


@pytest.mark.parametrize("at", range(4))
def test_a_stored_release_reads_no_row_and_an_empty_budget_says_so_first(tmp_path, at):
    path = tmp_path / "l"
    (unit, fit) = list(models(path, "one"))[at]
    Ledger(path).create("rows", 1, unit=unit)
    first = fit([[1, 2], [3, 4]]).release_
    assert fit(Unreadable([[1, 2]])).release_ == first
    if at != 2:  # sums of products are made before they are charged, of rows that cannot raise
        with pytest.raises(BudgetExceeded):
            list(models(path, "two"))[at][1](Unreadable([[1, 2]]))


def test_parts_that_are_no_tables_are_left_out():
    rows = np.full((50, 2), 3.0)
    odd = [None, "text", np.zeros((3, 5)), np.zeros(4), rows]
    found = PrivateKMeans(1, 1e6, bounds=BOX).fit(lambda: iter(odd)).release_
    assert round(float(found.counts[0])) == 50


def test_a_container_without_rows_is_of_the_same_kind():
    assert without_rows([[1, 2]]) == []
    assert without_rows(pa.table({"a": [1]})).num_columns == 1
    assert without_rows(pd.DataFrame({"a": [1]})).shape == (0, 1)
    assert without_rows("text") == "text"
    with pytest.raises(ValueError, match="3 columns, but bounds are for 2"):
        PrivateKMeans(1, 1.0, bounds=BOX).fit(np.zeros((4, 3)))

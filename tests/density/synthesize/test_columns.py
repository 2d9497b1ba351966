"""Public columns are cut into cells and drawn again within their limits and in their types."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.density.synthesize.columns import COLUMNS, ColumnSpec, codes_of

PUBLIC = {"size": (0.0, 2.0), "age": range(18, 91), "city": ["Paris", "Rome"], "code": [7, 9]}
SPECS = COLUMNS.check("test", "columns", PUBLIC)
RNG = np.random.default_rng(0)


def test_columns_are_described_by_bounds_ranges_and_lists():
    assert [each.kind for each in SPECS] == ["number", "integer", "category", "category"]
    assert {each.name: each.public for each in SPECS} == {
        **PUBLIC,
        "size": (0.0, 2.0),
    }
    assert COLUMNS.check("test", "columns", [list(each) for each in SPECS]) == SPECS


@pytest.mark.parametrize("bad", COLUMNS.bad())
def test_what_is_no_description_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match=r"columns|categories"):
        COLUMNS.check("test", "columns", bad)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("bins", [2, 5, 32, 100])
@pytest.mark.parametrize("spec", SPECS, ids=[each.name for each in SPECS])
def test_a_drawn_value_is_in_the_cell_it_was_drawn_from(spec, bins, nullable):
    spec = spec._replace(nullable=nullable)
    codes = np.tile(np.arange(spec.cells(bins)), 50)
    drawn = pa.table({spec.name: spec.drawn(codes, bins, RNG)})
    assert drawn[spec.name].null_count == (50 if nullable else 0)
    assert (codes_of("test", drawn, (spec,), bins)[:, 0] == codes).all()


def test_types_are_kept():
    types = [spec.drawn(np.array([0, 1]), 8, RNG).type for spec in SPECS]
    assert types == [pa.float64(), pa.int64(), pa.string(), pa.int64()]


def test_values_outside_count_at_the_bound():
    far = pa.table({"size": [-9.0, np.inf, 1e300], "age": [-(2**60), 2**60, 91]})
    codes = codes_of("test", far, SPECS[:2], 32)
    assert codes.tolist() == [[0, 0], [31, 31], [31, 31]]


ODD = [None, "guest", np.nan, 1j, pd.NaT, datetime.date(2026, 5, 17), b"\xff", [1.0], object()]


def test_rows_that_miss_a_value_are_left_out_unless_it_may_be_missing():
    rows = [[1.0, 20, "Rome", 7], *([odd, 20, "Rome", 7] for odd in ODD)]
    rows += [[1.0, 20, "Oslo", 7], [1.0, 20, "Rome", 8], [1.0, 20], None]
    assert len(codes_of("test", rows, SPECS, 8)) == 1
    loose = tuple(each._replace(nullable=each.name == "size") for each in SPECS)
    codes = codes_of("test", rows, loose, 8)
    assert codes[:, 0].tolist() == [4, *[8] * len(ODD)]
    assert (codes[:, 1:] == codes[0, 1:]).all()


def test_tables_have_their_columns_by_name_in_any_order():
    cells = {"code": ["9", "7"], "city": ["Rome", "Paris"], "age": [20, 30], "size": [0.1, 1.9]}
    cells["other"] = ["x", "y"]
    expected = codes_of("test", [[0.1, 20, "Rome", 9], [1.9, 30, "Paris", 7]], SPECS, 8)
    for made in (pa.table, pd.DataFrame, pl.DataFrame):
        assert (codes_of("test", made(cells), SPECS, 8) == expected).all()
    with pytest.raises(ValueError, match="X has no column 'size'"):
        codes_of("test", pa.table(cells).drop_columns("size"), SPECS, 8)
    with pytest.raises(ValueError, match="must have 4 columns"):
        codes_of("test", np.zeros((3, 5)), SPECS, 8)


def test_a_file_states_columns_in_full():
    for bad in (["a", "number", [0, 1]], ["a", "number", [0, 1], 1], ["a", "date", [0, 1], True]):
        with pytest.raises(ValueError, match="columns"):
            COLUMNS.check("test", "columns", [bad])
    assert COLUMNS.check("test", "columns", [["a", "integer", [0, 9], True]]) == (
        ColumnSpec("a", "integer", (0, 9), True),
    )

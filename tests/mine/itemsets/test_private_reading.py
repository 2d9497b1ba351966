"""Private baskets are read one by one: none is refused, none changes how another is read."""

import enum
import gzip
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import Baskets, PrivateItemsets, read_baskets
from sfumato.mine.itemsets.private.noisy_counts import CutBaskets
from sfumato.privacy import BudgetExceeded, Ledger

MOST = 4


class Fruit(int, enum.Enum):
    APPLE = 7


class Unreadable:
    def __iter__(self):
        raise RuntimeError

    def __index__(self):
        raise RuntimeError


def counted(baskets):
    """Counts of items of cut baskets by text, and the number of baskets; nothing may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cut = CutBaskets(baskets, MOST, 0)
        items = cut.own_items()
        counts = cut.item_counts(items, sampled=True)
        again = cut.item_counts(items, sampled=False)
    return dict(zip(items.to_pylist(), (counts + again).tolist(), strict=True)), cut.size


def check_neighbours(without, with_one, largest=MOST):
    """Check that one basket more adds at most 2 to its own items, and 1 to the baskets."""
    (few, size), (more, larger) = counted(without), counted(with_one)
    changes = {item: more.get(item, 0) - few.get(item, 0) for item in {*few, *more}}
    assert all(0 <= change <= 2 for change in changes.values())
    assert sum(changes.values()) <= 2 * largest
    assert 0 <= larger - size <= 1


ROWS = [[7, 8], [8], [], [7, 9, 10], [8, 7]] * 4
ODD = {
    "text": ["x"],
    "none": [None],
    "no list": None,
    "a number": 3,
    "a text": "7,8",
    "unreadable": Unreadable(),
    "unreadable cell": [Unreadable()],
    "an enum": [Fruit.APPLE],
    "bytes": [b"\xff", bytearray(b"7"), memoryview(b"7")],
    "array of none": [np.array(7), np.array([7])],
    "huge": [10**400, 2**64, -(2**63)],
    "floats": [7.0, np.nan, np.inf],
    "a surrogate": ["\ud800", "7.0"],
    "dates": [np.datetime64("2020-01-01"), np.datetime64("NaT")],
    "arrow": pa.array([7, None]),
    "many": [*range(1000), "x"],
}
FORMS = {
    "lists": lambda rows: rows,
    "arrow scalars": lambda rows: [pa.scalar(row, pa.list_(pa.int64())) for row in rows],
    "arrow cells": lambda rows: [[pa.scalar(cell) for cell in row] for row in rows],
    "arrow rows": lambda rows: [pa.array(row, pa.int64()) for row in rows],
    "arrays": lambda rows: [np.array(row, np.int64) for row in rows],
    "cells of no dimension": lambda rows: [[np.array(cell) for cell in row] for row in rows],
    "enums": lambda rows: [[Fruit.APPLE if cell == 7 else cell for cell in row] for row in rows],
    "texts": lambda rows: [[str(cell) for cell in row] for row in rows],
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_one_odd_list_changes_no_other(form, odd):
    rows = form(ROWS)
    assert counted(rows)[0] == counted(ROWS)[0]  # every form has the same items
    check_neighbours(rows, [*rows, odd])
    check_neighbours(rows, [odd, *rows])


def test_columns_of_lists_of_other_libraries_are_read_row_by_row():
    plain = counted(ROWS)
    assert counted(pl.Series(ROWS)) == plain
    assert counted(pa.array(ROWS, pa.list_view(pa.int64()))) == plain
    assert counted(pd.Series(ROWS)) == plain
    assert counted(pd.Series(ROWS, dtype=pd.ArrowDtype(pa.list_(pa.int64())))) == plain
    odd = [*ROWS, ["x", object()]]  # which makes polars store objects, not lists of integers
    check_neighbours(pl.Series(ROWS), pl.Series(odd, dtype=pl.Object))
    check_neighbours(pd.Series(ROWS), pd.Series(odd))
    days = pd.Series([[2**40]], dtype=pd.ArrowDtype(pa.list_(pa.timestamp("s"))))
    assert counted(days)[1] == 1


def test_containers_are_told_apart_by_their_type_alone():
    offsets = np.array([0, 2, 3, 3])
    assert counted((offsets, [7, None, "7"])) == ({"7": 4}, 3)
    assert counted(pa.array([[7], None, [7, None]])) == ({"7": 4}, 3)
    assert counted(pa.array([[b"\xff", b"7"], [b"8"]]))[0] == {"7": 2, "8": 2}
    broken = pa.array([[b"\xff"], [b"8"]], pa.list_(pa.binary())).cast(
        pa.list_(pa.binary()), safe=False
    )
    values = pa.Array.from_buffers(pa.string(), 2, broken.flatten().buffers())  # not UTF-8
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), values)
    assert counted(column) == ({"8": 2}, 2)
    dated = pa.array([[2**62], [0]], pa.list_(pa.timestamp("us")))
    assert counted(dated)[1] == 2
    assert counted(pa.array([None, None])) == ({}, 2)
    for tuples in ((["a"], ["b"]), (np.array([1]), np.array([2]), np.array([3]))):
        with pytest.raises(TypeError, match="give a list of baskets"):
            counted(tuples)


LINES = {
    "fimi": ("a.dat", {}, " "),
    "lines": ("a.csv", {}, ","),
    "latin": ("a.csv", {"encoding": "latin-1"}, ","),
    "tabs": ("a.tsv", {}, "\t"),
    "packed": ("a.csv.gz", {}, ","),
}
ODD_LINES = [
    b"x",
    b"\xff\xfe,7",
    b"007,1234567890123456789012",
    b'"7',
    b'"7",8"',
    b'"a\rb",7',
    b"7\r",
    b"\x00,7",
    b'"' + 200_000 * b"7" + b'"',
    b"7.0,7,8.0,8,9,9.0",
    b"\xef\xbb\xbf7",
    ",".join(map(str, range(3000))).encode(),
]


@pytest.mark.parametrize("odd", ODD_LINES, ids=range(len(ODD_LINES)))
@pytest.mark.parametrize(("name", "options", "between"), LINES.values(), ids=LINES.keys())
def test_one_odd_line_changes_no_other(tmp_path, name, options, between, odd):
    integers = [between.join(map(str, row)).encode() for row in ROWS] + [b"007"]
    texts = [*integers, b"c\rd", b'5"', between.join(['"7"', "8"]).encode()]

    def file(rows, at):
        path = tmp_path / f"{at}{name}"
        data = b"".join(row + b"\n" for row in rows)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return read_baskets(path, **options)

    for plain in (integers, texts):
        check_neighbours(file(plain, 0), file([*plain, odd], 1))
        check_neighbours(file(plain, 0), file([plain[0], odd, *plain[1:]], 2))


@pytest.mark.parametrize("odd", [b"x,-1,", b"007,-1,", b"\xff,-1,", b"tea-1,-12,-1,", b"-1,"])
def test_one_odd_basket_of_a_file_with_end_marks_changes_no_other(tmp_path, odd):
    (tmp_path / "a.flat").write_bytes(b"7,8,-1,007,-1," * 9)
    (tmp_path / "b.flat").write_bytes(odd + b"7,8,-1,007,-1," * 9)
    check_neighbours(read_baskets(tmp_path / "a.flat"), read_baskets(tmp_path / "b.flat"))


LONG = [b"1,tea", b"1,milk", b"2,tea", b"3,5", b'4,5"', b"2,rum", b"4,tea"]
ODD_LONG = [
    b'9,"x',
    b"9",
    b"9,x,y",
    b",x",
    b"9,",
    b"nine,tea",
    b"9.5,tea",
    b"9,\xff",
    b"9,a\rb",
    b"0,tea",
]


@pytest.mark.parametrize("odd", ODD_LONG, ids=range(len(ODD_LONG)))
def test_one_odd_basket_of_a_long_table_changes_no_other(tmp_path, odd):
    for name, rows in (("a", LONG), ("b", [LONG[0], odd, *LONG[1:]]), ("c", [*LONG, odd])):
        (tmp_path / f"{name}.csv").write_bytes(b"\n".join([b"basket,item", *rows, b""]))
    files = [read_baskets(tmp_path / f"{name}.csv", basket="basket") for name in "abc"]
    assert counted(files[0])[0]["tea"] == 6
    check_neighbours(files[0], files[1])
    check_neighbours(files[0], files[2])


@pytest.mark.parametrize(
    "odd",
    [b'{"basket": 9, "item": "x"', b"[9]", b'{"basket": "nine", "item": 7}', b'{"ITEM": 1}', b""],
)
def test_one_odd_line_of_json_changes_no_other(tmp_path, odd):
    rows = [b'{"basket": %d, "item": %d}' % (k % 5, k % 3) for k in range(20)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*rows, b""]))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join([*rows, odd, b""]))
    files = [read_baskets(tmp_path / name, basket="basket") for name in ("a.jsonl", "b.jsonl")]
    check_neighbours(*files)


@pytest.mark.parametrize(
    ("kind", "odd"),
    [
        (pa.int64(), None),
        (pa.int64(), [None, 7]),
        (pa.uint64(), [2**64 - 1]),
        (pa.binary(), [b"\xff", b"7"]),
        (pa.timestamp("us"), [2**62]),
    ],
)
def test_one_odd_basket_of_parquet_changes_no_other(tmp_path, kind, odd):
    cells = [[b"%d" % cell for cell in row] for row in ROWS] if kind == pa.binary() else ROWS
    for name, rows in (("a", cells), ("b", [*cells, odd])):
        pq.write_table(
            pa.table({"x": pa.array(rows, pa.list_(kind))}), tmp_path / f"{name}.parquet"
        )
    check_neighbours(*(read_baskets(tmp_path / f"{name}.parquet") for name in "ab"))


@pytest.mark.parametrize("encoding", ["utf-7", "raw_unicode_escape", "hz", "gbk"])
def test_encodings_in_which_a_line_can_change_another_are_refused(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    try:
        baskets = read_baskets(path, encoding=encoding)
    except ParameterError:
        return
    with pytest.raises(ParameterError, match="one byte per character"):
        PrivateItemsets(1, max_items=2, vocabulary=["a"]).fit(baskets)


def test_nothing_is_read_before_the_charge_nor_for_a_stored_release(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    ledger = Ledger(tmp_path / "l")
    ledger.create("shop", 1, unit="basket")
    model = PrivateItemsets(1, max_items=2, vocabulary=["a"])
    paid = dict(ledger=ledger, dataset="shop")
    baskets = read_baskets(path)
    first = model.fit(baskets, release_id="one", **paid).release_
    path.unlink()  # whatever the file says, or does not say
    assert model.fit(baskets, release_id="one", **paid).release_ == first
    with pytest.raises(BudgetExceeded):
        model.fit(baskets, **paid)
    with pytest.raises(BudgetExceeded):
        model.fit([Unreadable()], **paid)


def test_baskets_in_memory_are_taken_as_they_are():
    assert counted(Baskets([["7", "7.0", "tea"], ["7"]])) == ({"7": 4, "tea": 2}, 2)

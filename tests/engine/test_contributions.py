"""Contribution bounding on an engine: the limits and the choice of one machine."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engine import LocalEngine, bound_rows
from sfumato.privacy.mechanisms import bound_contributions
from support.engines import as_source

RANDOM = np.random.default_rng(0)
ROWS = 4000
TABLE = pa.table(
    {
        "user": RANDOM.integers(0, 60, ROWS),
        "item": [f"item {n}" for n in RANDOM.integers(0, 20, ROWS)],
        "time": RANDOM.permutation(ROWS),
    }
)
COLUMNS = {"user_column": "user", "item_column": "item"}
LIMITS = {"per_user": 30, "per_item": 2, "seed": 5}


def bounded(engine, source, table=TABLE, **options):
    """Retained rows of rows that lie in partitions by time."""

    def values(batches):
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    rows = engine.rows(source, table.column_names)
    if not table["time"].null_count:
        rows = rows.shuffle("time")
    found = bound_rows(rows, table.schema, **{**COLUMNS, **LIMITS, **options})
    return found.fold(values, lambda a, b: a + b)


def on_one_machine(table, **limits):
    ordered = table.sort_by("time")
    keep = bound_contributions(ordered["user"], ordered["item"], **limits)
    return [tuple(row.values()) for row in ordered.filter(pa.array(keep)).to_pylist()]


def test_rows_are_those_of_one_machine(engine, tmp_path):
    source = as_source(engine, TABLE, tmp_path)
    found = bounded(engine, source, order_column="time")
    assert sorted(found) == sorted(on_one_machine(TABLE, **LIMITS))


def small_batches(table):
    return [
        batch for start in range(0, ROWS, 100) for batch in table.slice(start, 100).to_batches()
    ]


@pytest.mark.parametrize("threads", [1, 3])
def test_limits_hold_however_the_rows_are_split(threads):
    found = bounded(LocalEngine(threads=threads), small_batches(TABLE))
    users, pairs = Counter(row[0] for row in found), Counter(row[:2] for row in found)
    assert max(users.values()) == 30
    assert max(pairs.values()) == 2
    # How many of each pair does not depend on the order of the rows.
    assert pairs == Counter(row[:2] for row in on_one_machine(TABLE, **LIMITS))


def test_no_order_of_the_source_changes_the_rows():
    shuffled = TABLE.take(pa.array(RANDOM.permutation(ROWS)))
    one = LocalEngine(threads=1)
    assert sorted(bounded(one, TABLE)) == sorted(bounded(one, shuffled))


def changes(before, after):
    left, right = Counter(before), Counter(after)
    return sum((right - left).values()), sum((left - right).values())


@pytest.mark.parametrize("order", [None, "time"])
def test_one_row_more_changes_at_most_one_in_and_one_out(order):
    one = LocalEngine(threads=1)
    rows = {"user": np.arange(60) % 3, "item": RANDOM.integers(0, 4, 60), "time": np.arange(60)}
    table = pa.table(rows)
    limits = {"per_user": 6, "per_item": 2, "order_column": order}
    whole = bounded(one, table, table, **limits)
    for row in range(table.num_rows):
        rest = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
        entered, left = changes(bounded(one, rest, table, **limits), whole)
        assert entered <= 1
        assert left <= 1


def test_one_user_more_changes_only_the_rows_of_that_user():
    one = LocalEngine(threads=1)
    whole = bounded(one, TABLE)
    for user in (3, 40):
        rest = TABLE.filter(pa.array(TABLE["user"].to_numpy() != user))
        found = bounded(one, rest)
        assert sorted(found) == sorted(row for row in whole if row[0] != user)


def test_no_row_raises_or_changes_others(engine, tmp_path):
    odd = {
        "user": [None, "", "7", "nan", "a\0b", None] + ["7"] * 4,
        "item": [float("nan"), None, 1e308, -0.0, float("inf"), None, 1.0, 2.0, 3.0, 4.0],
        "time": [None, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    }
    table = pa.table(odd)
    source = as_source(engine, table, tmp_path)
    found = bounded(engine, source, table, per_user=2, order_column="time")
    users = Counter(row[0] for row in found)
    assert users == {None: 2, "": 1, "7": 2, "nan": 1, "a\0b": 1}
    seven = table.filter(pa.array([user == "7" for user in odd["user"]]))
    alone = bounded(LocalEngine(threads=1), seven, seven, per_user=2, order_column="time")
    assert sorted(row for row in found if row[0] == "7") == sorted(alone)


def test_wrong_parameters_are_named():
    rows = LocalEngine(threads=1).rows(TABLE, TABLE.column_names)
    for name, value in (("per_user", 0), ("per_item", 0), ("seed", -1), ("order_column", "when")):
        with pytest.raises(ValueError, match=f"bound_rows: {name} must be"):
            bound_rows(rows, TABLE.schema, **{**COLUMNS, **LIMITS, name: value})


def table_of(**columns):
    """A table of 12 rows of one user and item, but for these columns."""
    return pa.table({"user": [1] * 12, "item": [1] * 12, "time": [1] * 12, **columns})


ONE_KEY = {
    "zeros": pa.array([0.0, -0.0] * 6),
    "nan": pa.array(np.array([0x7FF8 << 48, (0x7FF8 << 48) + 1] * 6, np.uint64).view(np.float64)),
    "text": pa.array(["7", "7.0"] * 6),
    "bytes": pa.array([b"7", b"7.0"] * 6),
    "dictionary": pa.array(["7", "7.0"] * 6).dictionary_encode(),
}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", ONE_KEY)
def test_ids_that_are_one_key_share_one_limit(name, threads):
    table = table_of(user=ONE_KEY[name], item=np.arange(12), time=np.arange(12))
    assert len(bounded(LocalEngine(threads=threads), table, table, per_user=3)) == 3


@pytest.mark.parametrize("order", [None, "time"])
@pytest.mark.parametrize("name", ["zeros", "text", "bytes", "dictionary", "times"])
def test_rows_that_differ_only_in_how_a_key_is_written_are_chosen_alike_in_every_order(name, order):
    odd = ONE_KEY | {"times": pa.array(10**18 + np.arange(12), pa.timestamp("ns"))}
    table, one = table_of(other=odd[name]), LocalEngine(threads=1)
    found = set()
    for seed in range(20):
        mixed = table.take(pa.array(np.random.default_rng(seed).permutation(12)))
        rows = bounded(one, mixed, table, per_user=5, per_item=5, order_column=order)
        found.add(tuple(sorted(map(repr, rows))))
    assert len(found) == 1


@pytest.mark.parametrize("name", ["__sfumato_user", "__sfumato_row", "tie", "order"])
def test_a_column_may_have_any_name(name):
    table = table_of(**{name: np.arange(12)})
    found = bounded(LocalEngine(threads=2), table, table, per_user=2, order_column="time")
    assert len(found) == 2
    assert all(len(row) == 4 for row in found)


UNUSABLE = {
    "lists": pa.array([["secret"]] * 12),
    "structures": pa.array([{"name": "secret"}] * 12),
    "views": pa.array(["secret"] * 12, pa.string_view()),
}


@pytest.mark.parametrize("kind", UNUSABLE)
@pytest.mark.parametrize("column", ["user", "item", "other"])
def test_a_type_that_cannot_be_hashed_is_refused_before_any_row_is_read(kind, column):
    table = table_of(**{column: UNUSABLE[kind]})
    rows = LocalEngine(threads=1).rows(table, table.column_names)
    with pytest.raises(ValueError, match="bound_rows: schema must have columns of") as error:
        bound_rows(rows, table.schema, **COLUMNS, **LIMITS)
    assert repr(column) in str(error.value)
    assert "secret" not in str(error.value)


def test_an_order_that_cannot_be_sorted_is_refused_before_any_row_is_read():
    table = table_of(time=pa.array(["secret"] * 12).dictionary_encode())
    rows = LocalEngine(threads=1).rows(table, table.column_names)
    with pytest.raises(ValueError, match="order_column must name a column that can be sorted"):
        bound_rows(rows, table.schema, **COLUMNS, **LIMITS, order_column="time")

"""Interactions hold checked columns of one length, and hash, code, filter, split them as wholes."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.hashing import hash_column
from sfumato.core.row_values import ids_by_row, plain_column, settled_ids
from sfumato.data import Interactions, as_ids, item_seed
from support.hard_rows import INSIDE, ODD, silent, with_row

RANDOM = np.random.default_rng(5)
USERS = RANDOM.integers(-50, 50, 2000)
ITEMS = np.array([f"item {n}" for n in RANDOM.integers(0, 70, 2000)], object)
RATINGS = RANDOM.integers(1, 6, 2000).astype(float)
INTERACTIONS = Interactions(USERS, ITEMS, RATINGS, times=np.arange(2000))


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.asarray,
        pd.Series,
        pl.Series,
        pa.array,
        lambda values: pa.chunked_array([values[:700], values[700:]]),
        lambda values: pa.array(values).dictionary_encode(),
        lambda values: pd.Series(values).astype("category"),
    ],
)
def test_columns_of_every_library_make_the_same_interactions(column):
    plain = [each.tolist() for each in (USERS, ITEMS, RATINGS)]
    users, items = column(plain[0]), column(plain[1])
    assert Interactions(users, items, plain[2], times=range(2000)) == INTERACTIONS


def test_integer_ids_are_int64_and_text_ids_are_texts():
    assert INTERACTIONS.users.dtype == np.int64
    assert INTERACTIONS.items.dtype == object
    assert set(map(type, INTERACTIONS.items)) == {str}
    small = Interactions(
        np.array([1, 2], np.uint8), np.array(["a", "b"]), np.array([1, 2], np.int8)
    )
    assert (small.users.dtype, small.ratings.dtype) == (np.int64, np.float64)
    assert small.items.tolist() == ["a", "b"]


def test_ids_are_coded_in_the_order_of_first_appearance():
    coded = INTERACTIONS.coded()
    assert coded.user_codes.dtype == coded.item_codes.dtype == np.int32
    assert coded.user_ids.tolist() == list(dict.fromkeys(USERS.tolist()))
    assert coded.item_ids.tolist() == list(dict.fromkeys(ITEMS.tolist()))
    assert np.array_equal(coded.user_ids[coded.user_codes], USERS)
    assert np.array_equal(coded.item_ids[coded.item_codes], ITEMS)
    assert INTERACTIONS.coded() is coded


def test_codes_of_a_part_name_only_what_the_part_holds():
    part = INTERACTIONS.filter(INTERACTIONS.items == "item 7")
    assert part.coded().item_ids.tolist() == ["item 7"]
    assert set(part.coded().user_ids) == set(USERS[ITEMS == "item 7"])


def test_hashes_are_those_of_the_columns_and_tell_users_from_items():
    users, items = INTERACTIONS.hashed(9)
    assert np.array_equal(users, hash_column(USERS, 9))
    assert np.array_equal(items, hash_column(ITEMS, item_seed(9)))
    same = Interactions([7], [7], [1]).hashed(9)
    assert same[0] != same[1]
    rows = INTERACTIONS.filter([3, 1000])
    assert np.array_equal(rows.hashed(9)[1], items[[3, 1000]])


@pytest.mark.parametrize("rows", [RATINGS > 3, np.array([5, 3, 3]), [], np.zeros(2000, bool)])
def test_filter_takes_masks_and_places(rows):
    part = INTERACTIONS.filter(rows)
    rows = np.asarray(rows, dtype=None if len(rows) else np.int64)
    assert np.array_equal(part.users, USERS[rows])
    assert np.array_equal(part.items, ITEMS[rows])
    assert np.array_equal(part.ratings, RATINGS[rows])
    assert np.array_equal(part.times, np.arange(2000)[rows])


@pytest.mark.parametrize("rows", [np.zeros(1999, bool), [0.5], [[1]], ["a"]])
def test_filter_refuses_what_is_neither(rows):
    with pytest.raises((TypeError, ValueError), match="Interactions: "):
        INTERACTIONS.filter(rows)


def test_columns_cannot_be_changed_nor_change_what_was_given():
    given = np.array([1.0, 2.0])
    made = Interactions([1, 2], ["a", "b"], given, times=[1, 2])
    for column in (made.users, made.items, made.ratings, made.times, *made.coded()):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = column[1]
    given[0] = 5.0  # what was given stays the caller's to change


def test_dates_become_seconds_and_keep_fractions():
    days = np.array(["1970-01-02", "1970-01-01T00:00:01.500"], "M8[ms]")
    assert Interactions([1, 2], [1, 2], [1, 1], times=days).times.tolist() == [86400, 1.5]
    whole = Interactions([1], [1], [1], times=pd.Series(pd.to_datetime(["1970-01-02"]))).times
    assert whole.dtype == np.int64
    assert whole.tolist() == [86400]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"ratings": [1, np.nan]}, "ratings: row 1 is not a finite number"),
        ({"ratings": [np.inf, 1]}, "ratings: row 0 is not a finite number"),
        ({"ratings": ["1", "2"]}, "ratings: numbers are expected"),
        ({"ratings": [True, False]}, "ratings: numbers are expected"),
        ({"ratings": pa.array([1, None])}, "ratings: row 1 is null"),
        ({"ratings": [[1], [2]]}, "ratings: one column"),
        ({"ratings": [1]}, "differ in length"),
        ({"times": [1]}, "differ in length"),
        ({"times": [1, np.nan]}, "times: row 1"),
        ({"times": np.array(["2020-01-01", "NaT"], "M8[s]")}, "times: row 1 is no date"),
        ({"users": [1.5, 2.5]}, "users: .*float"),
        ({"users": [1, None]}, "users: row 1 is null"),
        ({"users": [1, "a"]}, "users: "),
        ({"users": [1, 2**63]}, "users: integers as ids must be below"),
        ({"items": [b"\xff", b"a"]}, "items: bytes as ids must be UTF-8"),
        ({"items": [[1], [2]]}, "items: "),
    ],
)
def test_bad_columns_are_refused_by_name_and_place(bad, message):
    good = {"users": [1, 2], "items": ["a", "b"], "ratings": [3, 4]}
    with pytest.raises((TypeError, ValueError), match=message):
        Interactions(**{**good, **bad})


def test_empty_interactions_are_allowed():
    none = Interactions([], [], [])
    assert (len(none), none.coded().user_ids.size, none.hashed(1)[0].size) == (0, 0, 0)
    assert [len(part) for part in none.split(0.8, 0.2)] == [0, 0]


def test_repr_shows_no_data():
    result = repr(Interactions(["Secret"], ["Hidden"], [4.25]))
    assert not any(each in result for each in ("Secret", "Hidden", "4.25"))


def test_equality_compares_every_column():
    assert INTERACTIONS.filter(np.arange(2000)) == INTERACTIONS
    assert INTERACTIONS.filter(np.arange(1999)) != INTERACTIONS
    assert INTERACTIONS != "SEEN"
    columns = {"users": USERS, "items": ITEMS, "ratings": RATINGS, "times": np.arange(2000)}
    assert Interactions(**columns) == INTERACTIONS
    for name, column in columns.items():
        assert Interactions(**{**columns, name: np.roll(column, 1)}) != INTERACTIONS, name
    assert Interactions(USERS, ITEMS, RATINGS) != INTERACTIONS


UNRATED = Interactions(USERS, ITEMS, times=np.arange(2000))


def test_without_ratings_they_are_ones_and_stay_unsaid():
    parts = [
        UNRATED,
        UNRATED.filter(np.arange(2000)),
        UNRATED.filter([]).merge(UNRATED),
        pickle.loads(pickle.dumps(UNRATED)),
    ]
    for part in parts:
        assert part == UNRATED
        assert not part.has_ratings
        assert np.array_equal(part.ratings, np.ones(2000))
        assert part.to_arrow().column_names == ["user", "item", "time"]
    assert INTERACTIONS.has_ratings
    assert Interactions(USERS, ITEMS, np.ones(2000), np.arange(2000)) != UNRATED
    assert not any(part.has_ratings for part in UNRATED.split(0.5, 0.5))
    assert "ratings=False" in repr(UNRATED)
    assert UNRATED.outside(bounds=(2, 5)).clipped == 0


def test_rows_with_and_without_ratings_are_not_merged():
    for one, other in ((UNRATED, INTERACTIONS), (INTERACTIONS, UNRATED)):
        with pytest.raises(ValueError, match="only one of the two has ratings"):
            one.merge(other)
    with pytest.raises(ValueError, match="differ in length"):
        Interactions([1, 2], [1])


def test_rows_without_ratings_are_dropped_for_their_ids_alone():
    mixed = Interactions([7, None, "7", 8], ["tea", "tea", "", 3.0], invalid="drop")
    assert mixed.users.tolist() == [7, 8]
    assert mixed.report.skipped == {"the user is no id": 1, "the item is no id": 1}
    assert not mixed.has_ratings
    both = mixed.merge(Interactions(["x"], ["y"], invalid="drop"))
    assert (both.users.tolist(), both.has_ratings) == (["7", "8", "x"], False)
    assert not Interactions([7], ["tea"]).by_row().has_ratings


def test_merge_joins_the_rows_of_both():
    assert (
        INTERACTIONS.filter(np.arange(300)).merge(INTERACTIONS.filter(np.arange(300, 2000)))
        == INTERACTIONS
    )
    assert Interactions([], [], [], times=[]).merge(INTERACTIONS) == INTERACTIONS
    with pytest.raises(ValueError, match="only one of the two has times"):
        INTERACTIONS.merge(Interactions(USERS, ITEMS, RATINGS))
    with pytest.raises(TypeError, match="items are integers in one"):
        INTERACTIONS.merge(Interactions([1], [1], [1], times=[1]))


@pytest.mark.parametrize(("one", "many"), [(7, [7]), ("a", ["a"]), (np.int32(7), [7])])
def test_one_id_is_a_column_of_one(one, many):
    assert hash_column(as_ids(one, "users"), 3).tolist() == hash_column(many, 3).tolist()


def test_one_id_of_another_type_is_refused():
    for bad in (True, 1.5, None):
        with pytest.raises((TypeError, ValueError), match="users"):
            as_ids(bad, "users")


GOOD = Interactions([7, 8, 9], ["tea", "3", "rum"], [1.0, 2.5, 5.0])


@pytest.mark.parametrize("name", ODD)
def test_an_invalid_row_is_read_or_dropped_and_no_other_row_changes(name):
    made = silent(lambda: with_row(GOOD, ODD[name]))
    assert [str(each) for each in made.users[:3]] == ["7", "8", "9"]
    assert [str(each) for each in made.items[:3]] == ["tea", "3", "rum"]
    assert made.ratings[:3].tolist() == [1.0, 2.5, 5.0]
    assert len(made) in (3, 4)
    assert (made.report.rows, made.report.kept) == (4, len(made))
    assert sum(made.report.skipped.values()) == 4 - len(made)
    if name in INSIDE:
        assert (str(made.users[3]), str(made.items[3])) == ("7", "3")


def test_floats_that_an_invalid_row_makes_texts_stay_the_ids_they_were():
    plain, mixed = (
        Interactions(c, c, [1, 1, 1], invalid="drop")
        for c in (np.array([7.0, -8.0, 9.0]), np.array([7.0, -8.0, "guest"]))
    )
    assert (plain.users.tolist(), mixed.items.tolist()) == ([7, -8, 9], ["7", "-8", "guest"])
    strict = Interactions(["7.0", "7", ""], ["007", "7.00", "b"], [1, 1, 1])
    assert strict.by_row().users.tolist() == [7, 7]
    assert strict.by_row().items.tolist() == ["007", "7.00"]
    assert strict.by_row() is strict.by_row()
    assert mixed.by_row() is mixed


@pytest.mark.parametrize("mixed", ["guest", 8.0, None, "8", pd.NA, float("nan")])
def test_every_container_of_an_invalid_id_reads_the_others_equally(mixed):
    # NumPy, pandas and Arrow each make another type of a column by one value of another type.
    columns = [[7, mixed], pd.Series([7, mixed], dtype=object), np.array([7, mixed], object)]
    if not isinstance(mixed, type(pd.NA)):
        columns += [pd.Series([7, mixed]), np.array([7, mixed])]
    if mixed is None or isinstance(mixed, float):
        columns += [pa.array([7, mixed], from_pandas=True), pd.array([7, mixed], dtype="Int64")]
    found = [silent(lambda c=c: Interactions(c, c, [1, 1], invalid="drop")) for c in columns]
    for each in found:
        assert str(each.users[0]) == str(each.items[0]) == "7"
        assert [str(one) for one in each.users] == [str(one) for one in found[0].users]


def test_masked_values_and_dates_are_no_ids_and_no_ratings():
    masked = np.ma.array([7, 8], mask=[False, True])
    assert Interactions(masked, [1, 2], [1, 2], invalid="drop").users.tolist() == [7]
    assert Interactions([1, 2], [1, 2], masked, invalid="drop").ratings.tolist() == [7]
    dates = np.array(["2020-01-01", "NaT"], "M8[D]")
    assert Interactions(dates, [1, 2], [1, 2], invalid="drop").users.tolist() == ["2020-01-01"]
    assert len(Interactions([1, 2], [1, 2], dates, invalid="drop")) == 0


def test_what_is_no_column_is_refused_in_either_way():
    with pytest.raises(ValueError, match="times must be None for invalid='drop'"):
        Interactions([1], [1], [1], [1], invalid="drop")
    with pytest.raises(ValueError, match="invalid must be one of"):
        Interactions([1], [1], [1], invalid="skip")
    with pytest.raises(ValueError, match="differ in length"):
        Interactions([1, None], [1], [1], invalid="drop")
    for bad in ("ann", 7, {1: 2}, pd.DataFrame({"a": [1]})):
        with pytest.raises(TypeError, match="users: a"):
            Interactions(bad, [1], [1], invalid="drop")
    with pytest.raises(ValueError, match="2 dimensions"):
        Interactions(np.ones((1, 1)), [1], [1], invalid="drop")


def test_dropping_is_carried_on_so_that_merging_never_raises():
    numbers, words = (Interactions([i], [i], [1], invalid="drop") for i in (7, "tea"))
    both = numbers.merge(words.filter([0]))
    assert both.users.tolist() == ["7", "tea"]
    assert both.merge(numbers).coded().user_codes.tolist() == [0, 1, 0]
    with pytest.raises(TypeError, match="cannot merge"):
        numbers.merge(Interactions(["tea"], [1], [1]))


def test_rows_that_python_cannot_have_change_no_other():
    far = pa.array([2**62, 0], pa.timestamp("s"))
    ends = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"\xff7")])
    retained = Interactions(far, [1, 2], [1.0, 2.0], invalid="drop")
    assert retained.users.tolist() == ["1970-01-01"]
    assert Interactions(text, [1, 2], [1.0, 2.0], invalid="drop").users.tolist() == [7]


def test_texts_of_private_rows_have_room_beyond_2_gib():
    # Arrow's plain strings end there: the row that exceeds them would raise.
    for words in (pa.array(["a", "b"]), pa.chunked_array([["a"], ["b"]]).dictionary_encode()):
        ids = ids_by_row(words, "users")
        for column in (plain_column(words, "users"), ids, settled_ids(ids)):
            assert column.type == pa.large_string()

"""The hash is XXH64 for text, one stable mixer for integers, equal for every type and container."""

import ctypes
import datetime
import decimal
import itertools
import mmap
import os
import re
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from sfumato.core.hashing import MISSING, KeyColumn, hash_column
from sfumato.kernels.hash import ROOM, ROW, strings

WORDS = ["", "a", "tea", "twelve bytes", "thirteen byte", "é" * 9, "x" * 31, "y" * 32, "z" * 100]


def mix(z):
    z = (z ^ z >> 27) * 0x3C79AC492BA7B653 % 2**64
    z = (z ^ z >> 33) * 0x1C69B3F74AC4AE35 % 2**64
    return z ^ z >> 27


def reference(words, seed):
    """The hashes by an independent XXH64 and by big integers, as kernels/hash.py states them."""
    data = [word.encode() if isinstance(word, str) else word for word in words]
    return [_reference(word, seed) for word in data]


def _reference(word, seed):
    if re.fullmatch(rb"(0|-?[1-9][0-9]*)(\.0)?", word):
        value = int(word.removesuffix(b".0"))
        if -(2**63) <= value < 2**64:
            hashed = mix(value % 2**64 ^ mix((seed + 0x9E3779B97F4A7C15) % 2**64))
            return mix((hashed + 0x9E3779B97F4A7C15) % 2**64) if value >= 2**63 else hashed
    return xxhash.xxh64_intdigest(word, seed)


DIGITS = st.integers(-(2**70), 2**70).map(str) | st.text("-.0123456789", max_size=24)


@given(
    st.lists(st.binary(max_size=80) | DIGITS.map(str.encode)),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.integers(0, 2**64 - 1),
)
def test_bytes_hash_as_xxh64_and_decimal_texts_as_their_integers(words, kind, seed):
    assert hash_column(pa.array(words, kind), seed).tolist() == reference(words, seed)


def test_keys_hashed_together_do_not_depend_on_their_neighbours():
    # Every length to beyond three stripes, and digits of every length beside what only looks so.
    rng = np.random.default_rng(0)
    words = [rng.bytes(size) for size in range(110)] + [rng.bytes(5000)]
    for size in range(1, 24):
        digits = "".join(map(str, rng.integers(0, 10, size)))
        forms = ["1" + digits[1:], "0" + digits[1:], "-" + digits[1:], digits + ".0"]
        forms += [digits[:at] + odd + digits[at + 1 :] for at in range(size) for odd in "/:."]
        words += [form.encode() for form in forms]
    want = reference(words, 7)
    for _ in range(3):
        order = rng.permutation(len(words))
        column = pa.array([words[at] for at in order], pa.binary())
        assert hash_column(column, 7).tolist() == [want[at] for at in order]


@pytest.mark.skipif(os.name != "posix", reason="pages are protected by a POSIX call")
def test_no_page_beside_the_keys_is_read():
    room = mmap.mmap(-1, 3 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, 2):  # reading either of them now ends the process
        where = ctypes.c_void_p(address + page * mmap.PAGESIZE)
        assert protect(where, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    room[mmap.PAGESIZE : 2 * mmap.PAGESIZE] = data = bytes(range(256)) * (mmap.PAGESIZE // 256)
    for size in (*range(1, 41), 600):
        for start in (0, len(data) - size):
            out = np.empty(9, np.uint64)
            offsets = np.array([start] * 9 + [start + size])
            scratch = np.empty((3, ROOM), np.uint64)
            strings(np.uint64(address + mmap.PAGESIZE), offsets, np.uint64(3), scratch, out)
            want = reference([b""] * 8 + [data[start : start + size]], 3)
            assert out.tolist() == want


LIMITS = [0, 9, 10, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**63)]


@pytest.mark.parametrize("value", LIMITS)
def test_an_integer_and_its_decimal_text_are_one_key(value):
    kind = np.uint64 if value >= 2**63 else np.int64
    want = hash_column(np.array([value], kind), 3)[0]
    assert hash_column([str(value)], 3)[0] == want
    assert hash_column([f"{value}.0".encode()], 3)[0] == want


@pytest.mark.parametrize(
    "word",
    [
        "-0",
        "007",
        "+7",
        " 7",
        "7.",
        "7.00",
        ".0",
        "-",
        "-.0",
        str(2**64),
        str(-(2**63) - 1),
        f"{2**64}.0",
    ],
)
def test_other_texts_of_digits_are_keys_of_their_own(word):
    want = xxhash.xxh64_intdigest(word.encode(), 3)
    assert hash_column([word], 3)[0] == hash_column([word, None], 3)[0] == want
    assert hash_column([word, 0.5], 3)[0] == want


INTEGERS = [7, -3, 2**53 + 1, 0]  # as floats, the third would be another
DAY = datetime.date(2026, 5, 17)
OTHERS = [
    "guest",
    "7",
    0.5,
    None,
    float("nan"),
    float("inf"),
    [1],
    {"a": 1},
    True,
    2**70,
    -(2**70),
    b"x",
]
OTHERS += [DAY, decimal.Decimal("7.5"), np.datetime64("NaT"), pd.NaT, pd.NA, 1j, object(), "\ud800"]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: f"{type(other).__name__} {other!r:.12}")
def test_a_row_of_another_type_changes_no_other_hash(other):
    want = hash_column(INTEGERS, 5).tolist()
    objects = np.empty(5, object)
    objects[:] = [*INTEGERS, other]
    for column in (
        [*INTEGERS, other],
        (*INTEGERS, other),
        objects,
        pd.Series([*INTEGERS, other], dtype=object),
    ):
        assert hash_column(column, 5)[:4].tolist() == want
    halves = [0.5, 1.5, 4.0]
    for column in ([*halves, other], pd.Series([*halves, other], dtype=object)):
        assert hash_column(column)[:3].tolist() == hash_column(np.array(halves)).tolist()


def test_containers_that_one_row_turns_into_another_type_keep_their_hashes():
    want = hash_column(INTEGERS).tolist()
    small = hash_column([1, 2]).tolist()
    for column in (
        np.array([*INTEGERS, "guest"]),  # all text
        pa.array([*map(str, INTEGERS), "guest"]),
        pa.array([*map(str, INTEGERS), None]).dictionary_encode(),
        pd.Series([*INTEGERS, None], dtype="Int64"),
        pl.Series([*INTEGERS, None]),
        np.ma.masked_array([*INTEGERS, 9], [False] * 4 + [True]),
    ):
        assert hash_column(column)[:4].tolist() == want
    for column in (
        pd.Series([1, 2, None]),  # floats, and texts such as "1.0" once it is written to a file
        np.array([1.0, 2.0, "guest"]),
        pa.array(["1.0", "2.0", None]),
        pd.Series([1.0, 2.0], dtype="Float64"),
    ):
        assert hash_column(column)[:2].tolist() == small


def test_what_is_missing_is_one_reserved_key():
    want = xxhash.xxh64_intdigest(MISSING, 4)
    columns = [[None, 1], [float("nan"), "a"], pa.array([None, "a"]), pd.Series([None, 1.5])]
    columns += [np.ma.masked_array([7, 1], [True, False]), np.array(["NaT", "2020-01-01"], "M8[D]")]
    columns += [
        pa.nulls(2),
        pa.array([None, "b"]).dictionary_encode(),
        [[1], "a"],
        [[1], None],  # of a list no type is public: one row of another kind may not raise
        [{"a": 1}],
        pd.Series([pd.NA]),
    ]
    for column in columns:
        assert hash_column(column, 4)[0] == want
    assert KeyColumn([None, 7, "tea"]).take(np.arange(3)) == [None, b"7", b"tea"]


def test_one_value_neither_raises_nor_takes_long():
    far = np.array(["20000-01-01", "2020-01-01"], "M8[s]")
    want = [hash_column([None])[0], hash_column(["2020-01-01"])[0]]
    for column in (far, far.astype("M8[D]"), pa.array(far), pa.array(far).cast(pa.date32())):
        assert hash_column(column).tolist() == want
    crashing = [np.datetime64("NaT"), np.bool_(True)]  # Arrow, which guesses a type, ends Python
    assert hash_column(crashing).tolist() == hash_column([None, True]).tolist()
    zone = pa.array([0], pa.timestamp("s", "Mars/Phobos"))
    assert hash_column(zone).tolist() == hash_column(["1970-01-01"]).tolist()
    huge = decimal.Decimal("1e1000000")  # Arrow guesses its type digit by digit, for minutes
    begin = time.process_time()
    for column in ([huge, 7], np.array([huge, 7], object), pd.Series([huge, 7], dtype=object)):
        assert hash_column(column).tolist() == hash_column(["inf", 7]).tolist()
    assert time.process_time() - begin < 2


def test_an_iterator_is_read_once():
    keys = [1, 2, "x", 3]
    assert hash_column(iter(keys)).tolist() == hash_column(keys).tolist()


def test_dates_and_booleans_hash_equally_in_every_container():
    times = [pd.Timestamp("2026-05-17"), pd.Timestamp("2026-05-17 12:30:00.5")]
    want = reference(["2026-05-17", "2026-05-17 12:30:00.5"], 0)
    series = pd.Series(times)
    for column in (times, series, series.astype(object), series.to_numpy(), pa.array(series)):
        assert hash_column(column).tolist() == want
    assert hash_column([DAY]).tolist() == want[:1]
    aware = series.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    assert hash_column(aware).tolist() == hash_column(list(aware)).tolist() == want
    for column in ([True, False], np.array([True, False]), pa.array([True, False])):
        assert hash_column(column).tolist() == reference(["true", "false"], 0)


@given(
    st.lists(
        st.one_of(st.integers(), st.text(), st.floats(), st.none(), st.binary(), st.booleans())
    )
)
def test_names_are_equal_where_keys_are(values):
    names = KeyColumn(values).names().to_pylist()
    names = [
        name if name is None or isinstance(name, bytes) else str(name).encode() for name in names
    ]
    hashes = hash_column(values, 1).tolist()
    for (a, one), (b, two) in itertools.combinations(zip(names, hashes, strict=True), 2):
        assert (a == b) == (one == two)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(WORDS, id="list"),
        pytest.param([word.encode() for word in WORDS], id="bytes"),
        pytest.param(np.array(WORDS), id="numpy"),
        pytest.param(np.array(WORDS, object), id="numpy-object"),
        pytest.param(pa.array(WORDS), id="arrow"),
        pytest.param(pa.array(WORDS, pa.large_string()), id="large"),
        pytest.param(pa.array(WORDS, pa.string_view()), id="view"),
        pytest.param(pa.array(["cut", *WORDS])[1:], id="slice"),
        pytest.param(pa.array(["cut", *WORDS], pa.string_view())[1:], id="view-slice"),
        pytest.param(pa.array(["cut", *WORDS], pa.large_string())[1:], id="large-slice"),
        pytest.param(pa.array(WORDS).dictionary_encode(), id="dictionary"),
        pytest.param(pa.array([*WORDS, *WORDS]).dictionary_encode()[len(WORDS) :], id="dict-slice"),
        pytest.param(pa.chunked_array([WORDS[:2], [], WORDS[2:]]), id="chunked"),
        pytest.param(pa.record_batch({"k": WORDS})["k"], id="record-batch"),
        pytest.param(pd.Series(WORDS), id="pandas"),
        pytest.param(pd.Series(WORDS, dtype=object), id="pandas-object"),
        pytest.param(pd.Series(WORDS).astype("category"), id="pandas-category"),
        pytest.param(pl.Series(WORDS), id="polars"),
        pytest.param(pl.Series(WORDS, dtype=pl.Categorical), id="polars-category"),
    ],
)
def test_text_hashes_equally_in_every_container(column):
    assert hash_column(column, 7).tolist() == reference(WORDS, 7)


def test_fixed_size_binary_hashes_as_its_bytes():
    words = [b"abcd", b"efgh", b"ijkl"]
    column = pa.array([b"0000", *words], pa.binary(4))[1:]
    assert hash_column(column, 3).tolist() == reference(words, 3)


def test_blocks_join_seamlessly():
    words = [str(i) * (i % 5) for i in range(70_000)]
    assert hash_column(words).tolist() == reference(words, 0)


@pytest.mark.parametrize("dtype", "bBhHiIlLqQ")
def test_an_integer_hashes_equally_in_every_type(dtype):
    values = [0, 1, 77, 127]
    want = hash_column(values, 5)
    assert hash_column(np.array(values, dtype), 5).tolist() == want.tolist()
    swapped = np.array(values, np.dtype(dtype).newbyteorder())
    assert hash_column(swapped, 5).tolist() == want.tolist()


def test_negative_integers_hash_equally_and_differ_from_large_unsigned_ones():
    small, large = hash_column(np.array([-1], np.int8)), hash_column(np.array([-1], np.int64))
    assert small == large
    assert hash_column(np.array([2**64 - 1], np.uint64)) != large
    assert hash_column([2**64 - 1, 1])[1] == hash_column([1])[0]


def test_integer_hash_never_changes():
    # Computed once by an independent big-integer version of the formula in kernels/hash.py.
    key = mix(42 + 0x9E3779B97F4A7C15)
    values = [0, 1, 2**40, -5]
    assert hash_column(values, 42).tolist() == [mix(v % 2**64 ^ key) for v in values]
    assert hash_column([1, 2], 0).tolist() == [10146600213172361939, 151358992230009608]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, None], "row 1 is null"),
        (pa.chunked_array([[1, 2], [3, None]]), "row 3 is null"),
        (pa.array(["a", None]), "row 1 is null"),
        (pa.array(["a", None]).dictionary_encode(), "row 1 is null"),
        (pd.Series([1, None]), "row 1 is null"),
        ([1.5], "float at row 0"),
        ([1, 2.5], "float at row 1"),
        (np.array([1.5]), "double at row 0"),
        ([1, "a"], "str at row 1"),
        ([True], "bool at row 0"),
        ([1, 2**70], "2\\*\\*64 - 1 are expected; row 1 is not"),
        ([2**63, -1], "cannot stand beside negative ones"),
        ([1, True], "not bool at row 1"),
        (np.ma.masked_array([1, 2], [False, True]), "masked array"),
        ({"a": 5, "b": 2}, "not a mapping; give its keys and weights"),
        (pd.DataFrame({"a": [1]}), "not a table; name the column"),
        (pl.DataFrame({"a": [1]}), "not a table; name the column"),
        (pa.table({"a": [1]}), "not a table; name the column"),
        (["\ud800"], "valid Unicode"),
        ("tea", "whole column"),
        (7, "not int"),
        (np.zeros((2, 2), int), "2 dimensions"),
        (pa.array([[1]]), "list"),
    ],
)
def test_a_strict_column_names_type_and_row_of_what_it_refuses(column, message):
    with pytest.raises((TypeError, ValueError), match=f"^basket: .*{message}"):
        KeyColumn(column, name="basket", strict=True)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"a": 5, "b": 2}, "not a mapping; give its keys and weights"),
        (pd.DataFrame({"a": [1]}), "not a table; name the column"),
        (pa.table({"a": [1]}), "not a table; name the column"),
        ("tea", "whole column"),
        (7, "not int"),
        (np.zeros((2, 2), int), "2 dimensions"),
        (pa.array([[1]]), "list"),
    ],
)
def test_what_is_no_column_of_keys_is_refused(column, message):
    with pytest.raises((TypeError, ValueError), match=f"^basket: .*{message}"):
        hash_column(column, name="basket")


@pytest.mark.parametrize("frozen", [False, True])
def test_hashes_of_a_dictionary_are_those_of_its_present_words_and_seed(frozen):
    for first in range(9):  # the memory of one may be that of the next
        words = np.arange(first, first + 1000)
        words.flags.writeable = not frozen
        data = [None, pa.py_buffer(words)]
        shared = pa.Array.from_buffers(pa.int64(), 1000, data)
        indices = np.arange(999, -1, -1, dtype=np.int32)
        column = pa.DictionaryArray.from_arrays(pa.array(indices), shared)
        for seed in (0, 1, 0, 0):
            assert hash_column(column, seed).tolist() == hash_column(words[::-1], seed).tolist()
            if not frozen:
                words += 5


@pytest.mark.parametrize("index", [-1, 1, 2**30])
def test_a_dictionary_index_out_of_range_is_refused(index):
    indices, words = pa.array([0, index], pa.int32()), pa.array(["tea"])
    column = pa.DictionaryArray.from_arrays(indices, words, safe=False)
    with pytest.raises(ValueError, match="out of its range"):
        hash_column(column)


def test_large_ranges_are_unsigned():
    assert hash_column(range(2**63, 2**63 + 2)).tolist() == hash_column([2**63, 2**63 + 1]).tolist()


def test_errors_never_show_a_value():
    for column in (["Ada Lovelace", 1], ["Ada Lovelace", None], [123456789, "x"]):
        with pytest.raises((TypeError, ValueError)) as caught:
            KeyColumn(column, strict=True)
        assert "Ada" not in str(caught.value)
        assert "123456789" not in str(caught.value)


def _slots(hashes, rows, width):
    half, width = np.uint64(32), np.uint64(width)
    return [((hashes * ROW[r]) >> half) * width >> half for r in range(rows)]


def _pairs(cells):
    """How many pairs of keys share a cell."""
    counts = np.bincount(np.unique(cells, return_inverse=True)[1])
    return int((counts * (counts - 1) // 2).sum())


@pytest.mark.parametrize(
    "keys", [np.arange(150_000), np.arange(150_000) << 20, [f"user {i}" for i in range(150_000)]]
)
def test_rows_collide_independently(keys):
    # Pairs of keys that share a cell in two (three) rows, against independent rows: counts near a
    # Poisson distribution of mean 43,000 (84). 28 + 56 tests at 6 deviations each: p < 1e-6 in all.
    # Rows h1, h2, h1 ^ h2 would have 43,000 pairs in the three, not 84.
    width, rows = 512, 8
    slots = _slots(hash_column(keys, 9), rows, width)
    pairs = 150_000 * 149_999 / 2
    for together in (2, 3):
        ideal = pairs / width**together
        for chosen in itertools.combinations(range(rows), together):
            cells = sum(slots[r] * np.uint64(width**at) for at, r in enumerate(chosen))
            assert abs(_pairs(cells) - ideal) < 6 * np.sqrt(ideal), chosen


def test_signs_are_independent_of_cells_and_of_other_rows():
    # Each agreement is a fair coin over n = 2e5 keys: 6 deviations, p < 2e-9 a test, 44 tests.
    hashes = hash_column(np.arange(200_000), 3)
    signs = [((hashes * ROW[r]) >> np.uint64(31) & np.uint64(1)).astype(bool) for r in range(8)]
    low_cell = [slot % np.uint64(2) == 0 for slot in _slots(hashes, 8, 512)]
    limit = 6 * np.sqrt(0.25 / hashes.size)
    for a, b in itertools.combinations(range(8), 2):
        assert abs((signs[a] == signs[b]).mean() - 0.5) < limit
    for sign, cell in zip(signs, low_cell, strict=True):
        assert abs((sign == cell).mean() - 0.5) < limit
        assert abs(sign.mean() - 0.5) < limit


def test_a_float_beside_large_integers_is_refused_and_not_cut():
    with pytest.raises(TypeError, match="not float at row 2"):
        KeyColumn([2**53, 2**53 + 1, 0.5], strict=True)
    assert hash_column([2**63, 2**64 - 1]).size == 2

"""The hash is XXH64 for text, one stable mixer for integers, alike for every container."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from sfumato.hashing import hash_column
from sfumato.kernels.hash import ROW

WORDS = ["", "a", "tea", "twelve bytes", "thirteen byte", "é" * 9, "x" * 31, "y" * 32, "z" * 100]


def reference(words, seed):
    data = [word.encode() if isinstance(word, str) else word for word in words]
    return [xxhash.xxh64_intdigest(word, seed) for word in data]


@given(st.lists(st.binary(max_size=80)), st.integers(0, 2**64 - 1))
def test_bytes_hash_as_xxh64(words, seed):
    assert hash_column(pa.array(words, pa.binary()), seed).tolist() == reference(words, seed)


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
def test_text_hashes_alike_in_every_container(column):
    assert hash_column(column, 7).tolist() == reference(WORDS, 7)


def test_fixed_size_binary_hashes_as_its_bytes():
    words = [b"abcd", b"efgh", b"ijkl"]
    column = pa.array([b"0000", *words], pa.binary(4))[1:]
    assert hash_column(column, 3).tolist() == reference(words, 3)


def test_blocks_join_seamlessly():
    words = [str(i) * (i % 5) for i in range(70_000)]
    assert hash_column(words).tolist() == reference(words, 0)


@pytest.mark.parametrize("dtype", "bBhHiIlLqQ")
def test_an_integer_hashes_alike_in_every_type(dtype):
    values = [0, 1, 77, 127]
    want = hash_column(values, 5)
    assert hash_column(np.array(values, dtype), 5).tolist() == want.tolist()
    swapped = np.array(values, np.dtype(dtype).newbyteorder())
    assert hash_column(swapped, 5).tolist() == want.tolist()


def test_negative_integers_hash_alike_and_differ_from_large_unsigned_ones():
    small, large = hash_column(np.array([-1], np.int8)), hash_column(np.array([-1], np.int64))
    assert small == large
    assert hash_column(np.array([2**64 - 1], np.uint64)) != large
    assert hash_column([2**64 - 1, 1])[1] == hash_column([1])[0]


def test_integer_hash_never_changes():
    # Computed once by an independent big-integer version of the formula in kernels/hash.py.
    def mix(z):
        z = (z ^ z >> 27) * 0x3C79AC492BA7B653 % 2**64
        z = (z ^ z >> 33) * 0x1C69B3F74AC4AE35 % 2**64
        return z ^ z >> 27

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
def test_what_cannot_be_hashed_is_named_by_column_type_and_row(column, message):
    with pytest.raises((TypeError, ValueError), match=f"^basket: .*{message}"):
        hash_column(column, name="basket")


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
            hash_column(column)
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
    # Poisson law of mean 43,000 (84). 28 + 56 tests at 6 deviations each: p < 1e-6 for the lot.
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
        hash_column([2**53, 2**53 + 1, 0.5])
    assert hash_column([2**63, 2**64 - 1]).size == 2

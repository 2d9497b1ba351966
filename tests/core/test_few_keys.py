"""One key, and a few in a list or array, have the hashes that an Arrow column gives them."""

import datetime
import decimal
import enum
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.core.few_keys import KEY_TYPES, MIXED, few_hashes, key_hash
from sfumato.core.hashing import BLOCK, KeyColumn, hash_column


class Colour(enum.IntEnum):
    RED = 3


class Size(enum.StrEnum):
    SMALL = "s"


class Octets(bytes):
    pass


NUMBERS = [7, 7.0, 0, -1, -0.0, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**200, -(2**200)]
TEXTS = ["7", "7.0", b"7", "-0", "007", "", "a" * 99, "é\ud800", "a\0b", b"\xff\0", Octets(b"x")]
OTHERS = [True, np.bool_(False), 1.5, 1e300, float("inf"), 1j, 2 + 0j, Colour.RED, Size.SMALL]
MISSING = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NaT]
DATES = [
    datetime.date(2020, 1, 2),
    datetime.datetime(2020, 1, 2, 3, tzinfo=datetime.UTC),
    datetime.time(3),
    datetime.timedelta(3),
    np.datetime64("2020-01-02"),
    pd.Timestamp("2020-01-02"),
]
SCALARS = [np.int8(-3), np.uint64(2**63 + 1), np.float32(1.5), np.str_("q"), np.bytes_(b"q")]
KEYS = [*NUMBERS, *TEXTS, *OTHERS, *MISSING, *DATES, *SCALARS, decimal.Decimal("7.0")]
SEEDS = [0, 1, 2**63, 2**64 - 1]


def by_arrow(column, seed):
    """The hashes of a column, always read as an Arrow column."""
    blocks = [hashes.copy() for _, hashes in KeyColumn(column).blocks(seed)]
    return np.concatenate([np.empty(0, np.uint64), *blocks])


@pytest.mark.parametrize("seed", SEEDS)
def test_one_key_hashes_as_in_a_column(seed):
    for key in KEYS:
        assert isinstance(key, KEY_TYPES)
        assert key_hash(key, seed) == by_arrow([key], seed), repr(key)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_few_keys_hash_as_a_column_beside_any_other(seed):
    for other in ("tea", 3, None, 1.5, "a\0b"):
        for key in [*KEYS, object(), [1], {}]:
            for column in ([other, key], (key, other)):
                want = by_arrow(column, seed)
                np.testing.assert_array_equal(few_hashes(column, seed), want, repr(column))
    for column in (KEYS, KEYS * 9, [], ()):
        np.testing.assert_array_equal(hash_column(column, seed), by_arrow(column, seed))


@given(st.lists(st.text() | st.integers(), max_size=9), st.integers(0, 2**64 - 1))
def test_lists_of_texts_and_integers_hash_as_columns(column, seed):
    np.testing.assert_array_equal(few_hashes(column, seed), by_arrow(column, seed))


@pytest.mark.parametrize(
    "column",
    [
        np.array(["a", "é", "", "7", "7.0"]),
        np.arange(-5, 5, dtype=">i4"),
        np.arange(9)[::2],
        np.array([0, 2**16 - 1], np.uint16),
        np.array([2**63, 1], np.uint64),
        np.array([True, False]),
        np.array([1.0, np.nan, -0.0, -(2.0**63), 2.0**53]),
        np.array([1.5, 2.0, np.nan, np.inf]),
        np.array([2.0**63, 1e300, -np.inf]),
        np.arange(2 * MIXED) / 4,
        np.array([1.5, 2.0], np.float32),
        np.array([1.5, 2.0], np.longdouble),
        np.array([7, "tea", None, 2**70], object),
        np.array([b"a", b"7"]),
        np.array(["2020-01-02", "NaT"], "datetime64[D]"),
    ],
    ids=lambda column: f"{column.dtype.str}-{column.size}",
)
def test_arrays_hash_as_columns(column):
    for seed in SEEDS:
        np.testing.assert_array_equal(hash_column(column, seed), by_arrow(column, seed))


def test_a_long_list_hashes_as_a_column_whatever_stands_in_it():
    words = [f"key {at}" for at in range(BLOCK)]
    numbers = list(range(BLOCK))
    for column in (words + words[:9], [*words, None, 1.5, *numbers], (*numbers, *words, "a\0b")):
        np.testing.assert_array_equal(hash_column(column, 3), by_arrow(column, 3))


def test_texts_that_are_no_unicode_hash_as_in_a_column():
    broken = np.array(["ab", "cd"])
    for code in (0x7FFFFFFF, 0x110000, 0xD800):
        broken.view(np.uint32)[1] = code
        np.testing.assert_array_equal(hash_column(broken, 3), by_arrow(broken, 3))


def test_a_few_keys_import_no_pandas():
    code = (
        "import sys\n"
        "from sfumato.sketch import BloomFilter, CountMin\n"
        "CountMin(64).update(['tea', 'milk']).update([1, 2, 1.5]).estimate(['tea'])\n"
        "BloomFilter(64).add('tea').contains('tea')\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

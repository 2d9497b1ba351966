"""Hashes of one key, or of the few in a list or NumPy array: no Arrow column, one kernel call.

The hashes are those of `sfumato.core.hashing`, which reads all other columns.
"""

import datetime
import decimal
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.core.canonical_keys import MISSING, canonical_key
from sfumato.kernels import hash as kernels
from sfumato.kernels import key_texts
from sfumato.kernels.seed_keys import key_of

__all__ = ["KEY_TYPES", "few_hashes", "key_hash"]

KEY_TYPES = (
    str,
    int,
    np.generic,
    bytes,
    float,
    type(None),
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    complex,
)
"""Types of what is one key and not a column of them."""

MIXED = 100  # rows of other or mixed types, each converted in Python; Arrow is faster for more
INTEGERS = frozenset({int, np.int64, np.int32})
INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
BETWEEN = b"\0"


def key_hash(key: Any, seed: int) -> np.ndarray:
    """Hash one key.

    Parameters
    ----------
    key : object
        A key of one of the types `KEY_TYPES`.
    seed : int
        Seed of the hash, from 0 to 2**64 - 1.

    Returns
    -------
    ndarray of shape (1,)
        The hash that the key has in a column, uint64.

    Examples
    --------
    >>> [int(key_hash(key, 1)[0]) % 1000 for key in ("tea", 7, 7.0, "7.0")]
    [876, 964, 964, 964]
    """
    kind = type(key)
    if kind is str:
        text: bytes | None = key.encode("utf-8", "surrogatepass")
    elif kind is int and -(2**63) <= key < 2**64:
        text = b"%d" % key
    else:
        text = canonical_key(key)
    out = np.empty(1, np.uint64)
    key_texts.one_key(MISSING if text is None else text, _word(seed), out)
    return out


def few_hashes(column: Any, seed: int) -> np.ndarray | None:
    """Hash the keys of a list, tuple or NumPy array, if that is possible without Arrow.

    Parameters
    ----------
    column : object
        Any column.
    seed : int
        Seed of the hash, from 0 to 2**64 - 1.

    Returns
    -------
    ndarray of shape (n,) or None
        Hashes, uint64; None for a column of another type, or of many rows of mixed types.

    Examples
    --------
    >>> bool((few_hashes(["tea", "7"], 1) == [key_hash("tea", 1)[0], key_hash(7, 1)[0]]).all())
    True
    """
    kind = type(column)
    if kind is np.ndarray:
        return _of_array(column, seed)
    if kind is not list and kind is not tuple:
        return None
    if not column:
        return np.empty(0, np.uint64)
    first = type(column[0])
    if first is str:
        found = _of_texts(column, seed)
    elif first in INTEGERS:
        found = _of_integers(column, seed)
    else:
        found = None
    return _of_mixed(column, seed) if found is None and len(column) <= MIXED else found


def _of_array(column: np.ndarray, seed: int) -> np.ndarray | None:
    """Hashes of integers of up to 63 bits, floats, texts or objects."""
    if column.ndim != 1:
        return None
    dtype = column.dtype
    if dtype.kind == "i" or (dtype.kind == "u" and dtype.itemsize < 8):
        return _hashed(np.ascontiguousarray(column, INT64), seed)
    if dtype == FLOAT64:
        return _of_floats(np.ascontiguousarray(column), seed)
    if dtype.kind not in "UO":
        return None
    try:
        return few_hashes(column.tolist(), seed)
    except (SystemError, ValueError):  # of texts with a code point that is none
        return None


def _of_floats(column: np.ndarray, seed: int) -> np.ndarray | None:
    """Hashes of floats: integral ones as integers, a few others by their shortest text."""
    out = np.empty(column.size, np.uint64)
    if key_texts.float_keys(column, _key(seed), _missing(seed), out):
        return out
    return _of_mixed(column.tolist(), seed) if column.size <= MIXED else None


def _of_texts(column: Sequence[Any], seed: int) -> np.ndarray | None:
    """Hashes of texts; None if one is no text, or has a zero byte."""
    try:
        text = "\0".join(column)
    except TypeError:
        return None
    out = np.empty(len(column), np.uint64)
    whole = key_texts.joined_keys(text.encode("utf-8", "surrogatepass"), _word(seed), out)
    return out if whole else None


def _of_integers(column: Sequence[Any], seed: int) -> np.ndarray | None:
    """Hashes of integers; None if one is of another type, or of more than 63 bits."""
    if not INTEGERS.issuperset(map(type, column)):
        return None
    try:
        return _hashed(np.array(column, INT64), seed)
    except OverflowError:
        return None


def _of_mixed(column: Sequence[Any], seed: int) -> np.ndarray:
    """Hashes of rows of any types, each by its canonical text."""
    texts = [canonical_key(value) for value in column]
    out = np.empty(len(texts), np.uint64)
    text = BETWEEN.join([MISSING if each is None else each for each in texts])
    if not key_texts.joined_keys(text, _word(seed), out):  # a key has a zero byte
        for row, each in enumerate(texts):
            key_texts.one_key(MISSING if each is None else each, _word(seed), out[row : row + 1])
    return out


def _hashed(values: np.ndarray, seed: int) -> np.ndarray:
    out = np.empty(values.size, np.uint64)
    kernels.integers(values, _key(seed), out)
    return out


@functools.lru_cache(1024)
def _word(seed: int) -> np.uint64:
    return np.uint64(seed)


@functools.lru_cache(1024)
def _missing(seed: int) -> np.uint64:
    return np.uint64(key_hash(None, seed)[0])


_key = functools.lru_cache(1024)(key_of)

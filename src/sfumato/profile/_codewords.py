"""Codewords of items, made from their hashes alone, and the sums of those of whole profiles."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sfumato.kernels import codebooks
from sfumato.kernels import codewords as kernels

__all__ = ["LENGTH", "SCALE", "codewords", "mean_square", "sums"]

# The longest codeword, in whole numbers: large enough that rounding toward zero takes little off,
# 0.8 sqrt(length) / SCALE of the squared norm (0.15 % at 1,000 entries, 1.2 % at the most), small
# enough that 2**16 codewords are summed in 32 bits.
SCALE = 2**14
LENGTH = 2**16  # entries of a codeword, at most
TABLE = 2**24  # entries of codewords that are kept at a time: 64 MiB
SUMS = 2**20  # entries of sums at a time: 8 MiB
BLOCK = 2**16  # entries of normals that are made, rounded and dropped


def codewords(hashes: np.ndarray, length: int, scale: int = SCALE) -> np.ndarray:
    """A direction for each hash, uniform on the sphere, rounded toward zero to whole numbers.

    Guarantee: the squares of a codeword, summed in integers, are at most scale**2, for every hash;
    and it depends on its own hash, the length and the scale only, on every machine alike.

    >>> word = codewords(np.array([7], np.uint64), 100)
    >>> word.dtype, bool((word.astype(np.int64) ** 2).sum() <= SCALE**2)
    (dtype('int32'), True)
    """
    panels = _panels(hashes, length, scale)
    words = panels.transpose(1, 0, 2).reshape(hashes.size, len(panels) * codebooks.PANEL)
    return np.ascontiguousarray(words[:, :length])


@lru_cache(64)
def mean_square(length: int, scale: int = SCALE) -> float:
    """The mean squared norm of a codeword, from 64 of them, which differ by far less than 1 %."""
    some = codewords(np.arange(64, dtype=np.uint64), length, scale).astype(np.float64)
    return float((some**2).sum() / len(some))


def sums(hashes: np.ndarray, starts: np.ndarray, length: int) -> Iterator[tuple[slice, np.ndarray]]:
    """The sums of the codewords of each set, some sets at a time, as int64.

    Each codeword is made once where those of all different items fit TABLE, else once for every
    part; memory stays bounded either way. A sum of 2**31 codewords is below 2**45.
    """
    coded = pa.array(hashes).dictionary_encode()
    items = np.asarray(coded.dictionary, np.uint64)
    places = np.asarray(coded.indices, np.int32)
    held = max(1, TABLE // length)
    whole = _panels(items, length, SCALE) if items.size <= held else None
    rows = max(1, (SUMS if whole is not None else 8 * SUMS) // length)
    for first in range(0, starts.size - 1, rows):
        bounds = starts[first : first + rows + 1]
        out = np.zeros((bounds.size - 1, length), np.int64)
        for at in range(0, items.size, held):
            table = _panels(items[at : at + held], length, SCALE) if whole is None else whole
            kernels.add(table, at, places, bounds, out)
        yield slice(first, first + bounds.size - 1), out


def _panels(hashes: np.ndarray, length: int, scale: int) -> np.ndarray:
    """Codewords in an even number of panels of sixteen entries, filled up with zeros."""
    count = 2 * -(-length // (2 * codebooks.PANEL))
    out = np.empty((count, hashes.size, codebooks.PANEL), np.int32)
    step = max(1, BLOCK // length)
    for start in range(0, hashes.size, step):
        part = slice(start, min(start + step, hashes.size))
        normals = np.empty((count, part.stop - start, codebooks.PANEL))
        codebooks.gaussian(hashes[part], normals)
        kernels.round_inward(normals, length, scale, out[:, part])
    return out

"""Digests are those of hashlib and hmac, whatever the lengths that stand side by side in lanes."""

import hashlib
import hmac

import numpy as np
import pytest

from sfumato.kernels.telemetry import sha256

TEXTS = [np.random.default_rng(length).bytes(length) for length in range(301)]
DATA = np.frombuffer(b"".join(TEXTS), np.uint8)
OFFSETS = np.cumsum([0, *map(len, TEXTS)])
PLAIN = np.empty((0, 8), np.uint32)  # no keys


def words(rows):
    """Rows of at most 64 bytes as blocks of sixteen words."""
    blocks = b"".join(row.ljust(64, b"\0") for row in rows)
    return np.frombuffer(blocks, ">u4").reshape(-1, 16).astype(np.uint32)


def plain(out):
    return [row.astype(">u4").tobytes() for row in out]


def drawn(rows, size, seed):
    rng = np.random.default_rng(seed)
    return [rng.bytes(size) for _ in range(rows)]


@pytest.mark.parametrize("size", [0, 1, 13, 24, 55, 56, 63])
def test_digest_equals_hashlib_for_every_length(size):
    heads = drawn(9, size, 1)
    rng = np.random.default_rng(2)
    codes, which = rng.permutation(301), rng.integers(0, 9, 301)
    out = np.empty((301, 8), np.uint32)
    sha256.hashed(sha256.INITIAL, PLAIN, 0, words(heads), size, which, DATA, OFFSETS, codes, out)
    wanted = [heads[w] + TEXTS[c] for w, c in zip(which, codes, strict=True)]
    assert plain(out) == [hashlib.sha256(message).digest() for message in wanted]


@pytest.mark.parametrize("length", [1, 16, 32, 63, 64])
def test_keyed_equals_hmac_under_a_key_for_each_row_and_under_one_for_all(length):
    keys, heads = drawn(301, length, 3), drawn(1, 13, 4)
    codes, which = np.arange(301)[::-1].copy(), np.zeros(301, np.int64)
    inner, outer, out = (np.empty((301, 8), np.uint32) for _ in range(3))
    sha256.midstates(sha256.INITIAL, words(keys), inner, outer)
    for rows in (slice(None), slice(7, 8)):
        sha256.hashed(
            inner[rows], outer[rows], 64, words(heads), 13, which, DATA, OFFSETS, codes, out
        )
        owned = keys if rows == slice(None) else keys[7:8] * 301
        pairs = zip(owned, codes, strict=True)
        assert plain(out) == [hmac.digest(key, heads[0] + TEXTS[c], "sha256") for key, c in pairs]


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17])
def test_any_number_of_rows_fills_the_lanes_in_part(rows):
    out = np.full((rows, 8), 7, np.uint32)
    codes = np.arange(rows) + 60
    sha256.hashed(
        sha256.INITIAL, PLAIN, 0, words([b""]), 0, np.zeros(rows, int), DATA, OFFSETS, codes, out
    )
    assert plain(out) == [hashlib.sha256(TEXTS[c]).digest() for c in codes]

"""Random words of permanent responses: derived by HMAC from a client's secret, or drawn afresh.

A client's key is K = HMAC(secret, "sfumato/client/1", 0, line of the parameters). Its cohort is
derived from the words of HMAC(K, "cohort", t), and the permanent response to a value from those
of HMAC(K, "permanent", t, value), for t = 0, 1, ... as four bytes. So the streams of other
parameters, metrics and values are indistinguishable from independent ones without the secret.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np

from sfumato.kernels.telemetry import responses, sha256
from sfumato.privacy.random_source import Source
from sfumato.telemetry.values import Values

__all__ = [
    "ClientKeys",
    "DrawnStream",
    "KeyedStream",
    "Stream",
    "block_words",
    "chosen",
    "digests",
    "keyed",
    "midstates",
]

PER_BLOCK = 8  # words of one digest
BLOCK_WORDS = 16  # of what is hashed at a time
PERMANENT = b"permanent"
NO_KEYS = np.empty((0, PER_BLOCK), np.uint32)  # of a plain hash
HEAD_BYTES = len(PERMANENT) + 4
LONGEST = 64  # bytes of a key; a longer one is hashed first (RFC 2104)
ROWS = 1 << 12  # chosen for at a time
NOTHING = Values(np.empty(0, np.uint8), np.zeros(2, np.int64), np.zeros(1, np.int64))
Rows = np.ndarray | slice
More = Callable[[Rows, int], np.ndarray]


class Stream(Protocol):
    """Uniform 32-bit words, with an independent stream for every row."""

    def words(self, rows: np.ndarray, start: int, count: int) -> np.ndarray:
        """Return words start to start + count of the streams of these rows, as uint32."""


class DrawnStream:
    """Stream of fresh words: each call draws new ones, so a word can be read only once."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def words(self, rows: np.ndarray, start: int, count: int) -> np.ndarray:
        out = np.empty((rows.size, count), np.uint32)
        self._source.fill(out)
        return out


class ClientKeys:
    """Keys of clients for one line of parameters.

    `secrets` is uint8 (n, length), one row per client; `line` is that of the parameters.
    """

    def __init__(self, secrets: np.ndarray, line: str) -> None:
        text = b"sfumato/client/1\0" + line.encode()
        message = Values(np.frombuffer(text, np.uint8), np.array([0, len(text)]), NOTHING.codes)
        masters = midstates(secrets)
        self._keys = midstates(_digest_bytes(keyed(masters, b"", message, _zeros(secrets))))

    def __len__(self) -> int:
        return int(self._keys[0].shape[0])

    def cohorts(self, limit: int) -> np.ndarray:
        """Return the cohort of every client, below `limit`."""

        codes = np.zeros(len(self), np.int64)

        def more(rows: Rows, block: int) -> np.ndarray:
            head = b"cohort" + block.to_bytes(4, "big")
            return keyed(self._of(rows), head, NOTHING, codes[rows])

        return chosen(len(self), limit, 1, more)[:, 0]

    def words(self, rows: np.ndarray, values: Values, blocks: range) -> np.ndarray:
        """Return these blocks of the streams of the rows' values, under the keys of the rows."""
        heads = _permanent_heads(blocks.start, blocks.stop)
        inner, outer = self._of(rows)
        if len(self) > 1:
            inner, outer = np.repeat(inner, len(blocks), 0), np.repeat(outer, len(blocks), 0)
        which = np.tile(np.arange(len(blocks)), rows.size)
        codes = np.repeat(values.codes[rows], len(blocks))
        out = np.empty((codes.size, PER_BLOCK), np.uint32)
        texts = (values.data, values.offsets, codes)
        sha256.hashed(inner, outer, sha256.BLOCK, heads, HEAD_BYTES, which, *texts, out)
        return out.reshape(rows.size, -1)

    def _of(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of these rows; one key may serve all."""
        inner, outer = self._keys
        return (inner[rows], outer[rows]) if len(self) > 1 else (inner, outer)


class KeyedStream:
    """Words of every client's permanent response to its value; one key may serve all rows."""

    def __init__(self, keys: ClientKeys, values: Values) -> None:
        self._keys, self._values = keys, values

    def words(self, rows: np.ndarray, start: int, count: int) -> np.ndarray:
        first, last = start // PER_BLOCK, -(-(start + count) // PER_BLOCK)
        out = self._keys.words(rows, self._values, range(first, last))
        begin = start - first * PER_BLOCK
        return out[:, begin : begin + count]


@lru_cache(64)
def _permanent_heads(start: int, stop: int) -> np.ndarray:
    """Return what is hashed before the value in these blocks of a permanent response, as words."""
    heads = [PERMANENT + t.to_bytes(4, "big") for t in range(start, stop)]
    return block_words(np.frombuffer(b"".join(heads), np.uint8).reshape(-1, HEAD_BYTES))


def chosen(rows: int, limit: int, count: int, more: More) -> np.ndarray:
    """Return `count` distinct integers below `limit` for every row: int32 (rows, count).

    more(rows, t) returns the eight words of block t of the streams of these rows.
    """
    out = np.empty((rows, count), np.int32)
    for begin in range(0, rows, ROWS):
        part = out[begin : begin + ROWS]
        found = np.zeros(len(part), np.int64)
        responses.choose(more(slice(begin, begin + len(part)), 0), limit, found, part)
        short, block = np.flatnonzero(found < count), 1
        while short.size:
            have, cells = found[short], part[short]
            responses.choose(more(begin + short, block), limit, have, cells)
            found[short], part[short] = have, cells
            short, block = short[have < count], block + 1
    return out


def digests(
    heads: np.ndarray, size: int, which: np.ndarray, values: Values, codes: np.ndarray
) -> np.ndarray:
    """Return SHA-256 of the head which[r], `size` bytes, and the value of codes[r], as words.

    `heads` is as `block_words` returns it.
    """
    out = np.empty((codes.size, PER_BLOCK), np.uint32)
    message = (heads, size, which.astype(np.int64), values.data, values.offsets, codes)
    sha256.hashed(sha256.INITIAL, NO_KEYS, 0, *message, out)
    return out


def keyed(
    keys: tuple[np.ndarray, np.ndarray], head: bytes, values: Values, codes: np.ndarray
) -> np.ndarray:
    """Return HMAC of head and value of each row's code, under its own key or one for all."""
    out = np.empty((codes.size, PER_BLOCK), np.uint32)
    heads = block_words(np.frombuffer(head, np.uint8)[np.newaxis])
    texts = (values.data, values.offsets, codes)
    sha256.hashed(*keys, sha256.BLOCK, heads, len(head), _zeros(codes), *texts, out)
    return out


def midstates(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the inner and outer initial states of HMAC under each key, uint8 (n, length)."""
    rows, size = keys.shape
    if size > LONGEST:
        full = Values(keys.reshape(-1), np.arange(0, keys.size + 1, size), np.arange(rows))
        empty = np.zeros((1, BLOCK_WORDS), np.uint32)
        keys = _digest_bytes(digests(empty, 0, _zeros(keys), full, full.codes))
    inner = np.empty((rows, PER_BLOCK), np.uint32)
    outer = np.empty_like(inner)
    sha256.midstates(sha256.INITIAL, block_words(keys), inner, outer)
    return inner, outer


def _zeros(rows: np.ndarray) -> np.ndarray:
    """Return an int64 zero for every row."""
    return np.zeros(len(rows), np.int64)


def block_words(rows: np.ndarray) -> np.ndarray:
    """Return rows of at most 64 bytes as sixteen words each, padded with zeros."""
    padded = np.zeros((rows.shape[0], LONGEST), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(">u4").astype(np.uint32)


def _digest_bytes(words: np.ndarray) -> np.ndarray:
    """Return digests of eight words as bytes, big-endian."""
    return words.astype(">u4").view(np.uint8)

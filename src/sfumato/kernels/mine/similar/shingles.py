"""Shingles of UTF-8 texts in Arrow buffers: normalised text, hashed windows, and sorted sets.

Text i is the bytes offsets[i] to offsets[i + 1] after the address `data`; it must be valid UTF-8. A
character is a code point. A shingle's hash is that of its normalised UTF-8 text, as of any key
(`kernels.hash`), so a set of shingles is the same set whether it is hashed here or as texts.
"""

import numpy as np

from sfumato.kernels.hash import GOLDEN, byte_at, mix, of_bytes
from sfumato.kernels.jit import inline, kernel

__all__ = [
    "character_windows",
    "distinct",
    "fingerprints",
    "gather",
    "normalise",
    "overlaps",
    "word_windows",
]

SPACE = np.uint32(32)
BLANK = np.uint64(32)
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
SIX, LOW = np.uint64(6), np.uint64(63)
ASCII, PAIR, TRIPLE = np.uint64(0x80), np.uint64(0xE0), np.uint64(0xF0)  # first bytes below these


@inline
def _size(first):
    """How many bytes a character takes, by its first byte."""
    size = ONE + np.uint64(first >= np.uint64(0xC0))
    return size + np.uint64(first >= PAIR) + np.uint64(first >= TRIPLE)


@inline
def _decode(at):
    """The code point of two to four bytes."""
    first, second = byte_at(at), byte_at(at + ONE) & LOW
    if first < PAIR:
        return (first & np.uint64(31)) << SIX | second
    point = second << SIX | byte_at(at + TWO) & LOW
    if first < TRIPLE:
        return (first & np.uint64(15)) << np.uint64(12) | point
    return (first & np.uint64(7)) << np.uint64(18) | point << SIX | byte_at(at + THREE) & LOW


@inline
def _encode(point, out, at):
    """Write a code point as UTF-8; gives where the next one goes."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
    elif point < 0x10000:
        out[at], out[at + 1] = 0xE0 | point >> 12, 0x80 | point >> 6 & 63
        at += 1
    else:
        out[at], out[at + 1] = 0xF0 | point >> 18, 0x80 | point >> 12 & 63
        out[at + 2] = 0x80 | point >> 6 & 63
        at += 2
    out[at + 1] = 0x80 | point & 63
    return at + 2


@kernel
def normalise(data, offsets, table, collapse, out, bounds):
    """Map every code point by `table` (0 drops it); `collapse` leaves one space between words.

    Code points past the table stay. out holds twice the bytes of the texts; text i is
    out[bounds[i] : bounds[i + 1]].
    """
    at = np.int64(0)
    bounds[0] = 0
    for i in range(offsets.size - 1):
        here, end = data + np.uint64(offsets[i]), data + np.uint64(offsets[i + 1])
        first, skip = at, collapse  # no space at the front
        while here < end:
            byte = byte_at(here)
            if byte < ASCII:  # without a branch on what it is: spaces are hard to predict
                point = table[byte]
                blank, dropped = point == SPACE, point == np.uint32(0)
                out[at] = np.uint8(point)
                at += np.int64(not (dropped | (blank & skip)))
                skip = collapse & (blank | (dropped & skip))
                here += ONE
            else:
                code = _decode(here)
                point = table[code] if code < np.uint64(table.size) else np.uint32(code)
                if point and not (point == SPACE and skip):
                    at = _encode(point, out, at)
                if point:
                    skip = collapse and point == SPACE
                here += _size(byte)
        if collapse and at > first and out[at - 1] == SPACE:
            at -= 1
        bounds[i + 1] = at


@kernel
def character_windows(data, bounds, k, seed, out, ends):
    """Hashes of all windows of k characters, of shorter texts as a whole; ends[i + 1] of text i."""
    key = mix(seed + GOLDEN)
    at = 0
    ends[0] = 0
    for i in range(bounds.size - 1):
        start, last = data + np.uint64(bounds[i]), data + np.uint64(bounds[i + 1])
        end, size = start, 0
        while size < k and end < last:
            end += _size(byte_at(end))
            size += 1
        while start < end:
            out[at] = of_bytes(start, end - start, seed, key)
            at += 1
            if end == last:
                break
            start += _size(byte_at(start))
            end += _size(byte_at(end))
        ends[i + 1] = at


@inline
def _word_end(at, last):
    while at < last and byte_at(at) != BLANK:
        at += ONE
    return at


@inline
def _listed(hashed, table):
    """Whether a hash is in an open table of 2**j slots, 0 in free ones."""
    mask = np.uint64(table.size - 1)
    slot = hashed & mask
    while table[slot] != np.uint64(0) and table[slot] != hashed:
        slot = (slot + ONE) & mask
    return table[slot] == hashed


@kernel
def word_windows(data, bounds, k, seed, stops, out, ends):
    """As `character_windows`, of k words between single spaces.

    If `stops` is not empty, only windows whose first word's hash is in this open table.
    """
    key = mix(seed + GOLDEN)
    at = 0
    ends[0] = 0
    for i in range(bounds.size - 1):
        start, last = data + np.uint64(bounds[i]), data + np.uint64(bounds[i + 1])
        end, size = _word_end(start, last), 1
        while size < k and end < last:
            end = _word_end(end + ONE, last)
            size += 1
        while start < last:
            word = _word_end(start, last)
            wanted = stops.size == 0 or size < k  # a short text is one shingle
            if wanted or _listed(of_bytes(start, word - start, seed, key), stops):
                out[at] = of_bytes(start, end - start, seed, key)
                at += 1
            if end >= last:
                break
            start, end = word + ONE, _word_end(end + ONE, last)
        ends[i + 1] = at


@inline
def _sort(values, spare, counts):
    """Sort uniformly distributed hashes: by their high bits into buckets, then by insertion."""
    bits = np.uint64(1)
    while np.int64(1) << np.int64(bits) < values.size and bits < np.uint64(16):
        bits += ONE
    shift = np.uint64(64) - bits
    for b in range((1 << bits) + 1):
        counts[b] = 0
    for i in range(values.size):
        counts[(values[i] >> shift) + ONE] += 1
    for b in range(1 << bits):
        counts[b + 1] += counts[b]
    for i in range(values.size):
        bucket = values[i] >> shift
        spare[counts[bucket]] = values[i]
        counts[bucket] += 1
    for i in range(values.size):
        value, j = spare[i], i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@kernel
def distinct(hashes, ends, bounds):
    """Sort each set in place and drop repeats: set i is then hashes[bounds[i] : bounds[i + 1]]."""
    longest = 0
    for i in range(ends.size - 1):
        longest = max(longest, ends[i + 1] - ends[i])
    spare, counts = np.empty(longest, np.uint64), np.empty((1 << 16) + 1, np.int64)
    at = 0
    start = ends[0]
    for i in range(ends.size - 1):
        end = ends[i + 1]
        _sort(hashes[start:end], spare, counts)
        first = at
        bounds[i] = first
        for j in range(start, end):
            if at == first or hashes[j] != hashes[at - 1]:
                hashes[at] = hashes[j]
                at += 1
        start = end
    bounds[ends.size - 1] = at


@kernel
def gather(hashes, offsets, rows, out, ends):
    """Copy the sets of some rows, one behind the other; that of rows[i] ends at ends[i + 1].

    Every hash is mixed, so that `distinct` sorts fast even where they are not uniform; equal ones
    stay equal and different ones different.
    """
    at = 0
    ends[0] = 0
    for i in range(rows.size):
        for j in range(offsets[rows[i]], offsets[rows[i] + 1]):
            out[at] = mix(np.uint64(hashes[j]))
            at += 1
        ends[i + 1] = at


@kernel
def fingerprints(hashes, offsets, out):
    """out[i] = a number that sets with the same members have in common, in any order."""
    for i in range(out.size):
        total = np.uint64(0)
        for j in range(offsets[i], offsets[i + 1]):
            total += mix(np.uint64(hashes[j]) ^ GOLDEN)
        out[i] = total


@kernel
def overlaps(hashes, bounds, first, second, out):
    """out[p] = size of the intersection of the sorted sets first[p] and second[p]."""
    for p in range(out.size):
        a, last_a = bounds[first[p]], bounds[first[p] + 1]
        b, last_b = bounds[second[p]], bounds[second[p] + 1]
        shared = 0
        while a < last_a and b < last_b:
            x, y = hashes[a], hashes[b]
            shared += x == y
            a += x <= y
            b += y <= x
        out[p] = shared

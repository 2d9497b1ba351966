"""Bits and small counters at k hashed positions of a key.

The plain layout spreads a key's k positions over the whole array, hash by hash for a block of keys;
the blocked layout keeps them in one cache line of 512 bits, so that a key costs one memory access.
"""

import numpy as np

from sfumato.kernels.hash import ROW, row_slot
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import prefetch, prefetch_write

__all__ = [
    "CHUNK",
    "count_down",
    "count_up",
    "fewest",
    "find",
    "find_blocked",
    "hits",
    "hits_blocked",
    "insert",
    "insert_blocked",
]

AHEAD = 32  # how long before its use a cache line is prefetched
CHUNK = 4096  # keys whose positions are worked off together: they stay in the first cache
NINE, TOP = np.uint64(9), np.uint64(55)  # a position in a line is nine bits, from the top of a word
PLACES = 7  # of them in one word


@inline
def _locate(hashes, j, bits, slots):
    for i in range(hashes.size):
        slots[i] = row_slot(hashes[i] * ROW[j], np.uint64(bits))


@kernel
def insert(words, bits, hashes_per_key, hashes, slots):
    """Set the k bits of every key; bits is at most 2**32, slots scratch of CHUNK."""
    for start in range(0, hashes.size, CHUNK):
        chunk = hashes[start : start + CHUNK]
        for j in range(hashes_per_key):
            _locate(chunk, j, bits, slots)
            for i in range(chunk.size):
                prefetch_write(words, slots[min(i + AHEAD, chunk.size - 1)] >> np.uint32(6))
                bit = np.uint64(1) << np.uint64(slots[i] & np.uint32(63))
                words[slots[i] >> np.uint32(6)] |= bit


@kernel
def find(words, bits, hashes_per_key, hashes, slots, out):
    """out[i] = 1 where all k bits of the key are set; slots is scratch of CHUNK."""
    out[:] = 1
    for start in range(0, hashes.size, CHUNK):
        chunk, found = hashes[start : start + CHUNK], out[start : start + CHUNK]
        for j in range(hashes_per_key):
            _locate(chunk, j, bits, slots)
            for i in range(chunk.size):
                prefetch(words, slots[min(i + AHEAD, chunk.size - 1)] >> np.uint32(6))
                word = words[slots[i] >> np.uint32(6)]
                found[i] &= np.uint8(word >> np.uint64(slots[i] & np.uint32(63)) & np.uint64(1))


@inline
def _line(h, lines):
    """The first word of the key's cache line."""
    return row_slot(h * ROW[0], np.uint64(lines)) << np.uint64(3)


@kernel
def insert_blocked(words, hashes_per_key, hashes):
    """Set k bits in the cache line of every key."""
    lines = words.size >> 3
    for i in range(hashes.size):
        if i + AHEAD < hashes.size:
            prefetch_write(words, _line(hashes[i + AHEAD], lines))
        first, product = _line(hashes[i], lines), np.uint64(0)
        for j in range(hashes_per_key):
            product = hashes[i] * ROW[1 + j // PLACES] if j % PLACES == 0 else product << NINE
            position = product >> TOP
            words[first + (position >> np.uint64(6))] |= np.uint64(1) << (position & np.uint64(63))


@kernel
def find_blocked(words, hashes_per_key, hashes, out):
    """out[i] = 1 where all k bits in the key's cache line are set."""
    lines = words.size >> 3
    for i in range(hashes.size):
        if i + AHEAD < hashes.size:
            prefetch(words, _line(hashes[i + AHEAD], lines))
        first, product = _line(hashes[i], lines), np.uint64(0)
        here = np.uint64(1)
        for j in range(hashes_per_key):
            product = hashes[i] * ROW[1 + j // PLACES] if j % PLACES == 0 else product << NINE
            position = product >> TOP
            here &= words[first + (position >> np.uint64(6))] >> (position & np.uint64(63))
        out[i] = np.uint8(here)


@kernel
def hits(words, bits, hashes_per_key, hashes, slots, out):
    """out[i] = how many of the key's k bits are set, one met twice twice; slots: scratch."""
    out[:] = 0
    for start in range(0, hashes.size, CHUNK):
        chunk, found = hashes[start : start + CHUNK], out[start : start + CHUNK]
        for j in range(hashes_per_key):
            _locate(chunk, j, bits, slots)
            for i in range(chunk.size):
                prefetch(words, slots[min(i + AHEAD, chunk.size - 1)] >> np.uint32(6))
                word = words[slots[i] >> np.uint32(6)]
                found[i] += np.uint8(word >> np.uint64(slots[i] & np.uint32(63)) & np.uint64(1))


@kernel
def hits_blocked(words, hashes_per_key, hashes, out):
    """out[i] = how many of the k bits in the key's cache line are set, repeats counted."""
    lines = words.size >> 3
    for i in range(hashes.size):
        if i + AHEAD < hashes.size:
            prefetch(words, _line(hashes[i + AHEAD], lines))
        first, product = _line(hashes[i], lines), np.uint64(0)
        here = np.uint64(0)
        for j in range(hashes_per_key):
            product = hashes[i] * ROW[1 + j // PLACES] if j % PLACES == 0 else product << NINE
            position = product >> TOP
            word = words[first + (position >> np.uint64(6))]
            here += word >> (position & np.uint64(63)) & np.uint64(1)
        out[i] = np.uint8(here)


@kernel
def count_up(cells, hashes_per_key, hashes, slots):
    """Raise the k cells of every key; 255 means 255 or more and stays. slots: scratch of CHUNK."""
    for start in range(0, hashes.size, CHUNK):
        chunk = hashes[start : start + CHUNK]
        for j in range(hashes_per_key):
            _locate(chunk, j, cells.size, slots)
            for i in range(chunk.size):
                prefetch_write(cells, slots[min(i + AHEAD, chunk.size - 1)])
                cells[slots[i]] += np.uint8(cells[slots[i]] != 255)


@kernel
def count_down(cells, hashes_per_key, hashes):
    """Lower the k cells of keys, up to the first key that has an empty cell; how many that were."""
    for i in range(hashes.size):
        for j in range(hashes_per_key):
            slot = row_slot(hashes[i] * ROW[j], np.uint64(cells.size))
            if cells[slot] == 0:
                for undo in range(j):
                    back = row_slot(hashes[i] * ROW[undo], np.uint64(cells.size))
                    cells[back] += np.uint8(cells[back] != 255)
                return i
            cells[slot] -= np.uint8(cells[slot] != 255)
    return hashes.size


@kernel
def fewest(cells, hashes_per_key, hashes, out):
    """out[i] = the smallest of the key's k cells."""
    for i in range(hashes.size):
        least = np.int64(255)
        for j in range(hashes_per_key):
            least = min(least, np.int64(cells[row_slot(hashes[i] * ROW[j], np.uint64(cells.size))]))
        out[i] = least

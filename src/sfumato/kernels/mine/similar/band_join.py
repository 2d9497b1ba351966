"""Pairs of rows that share a band key, each once, and the components that pairs make.

Rows of one band are visited in the order of their keys, so the rows of a bucket stand together. A
pair is met in the first band that it shares, so no list of pairs has to be searched for repeats.
"""

import numpy as np

from sfumato.kernels.hash import ROW, mix, row_slot
from sfumato.kernels.jit import inline, kernel

__all__ = ["enter", "insert_unlike", "insert_unlike_bloom", "pairs", "union"]

ONE = np.uint64(1)


@inline
def _shares_earlier(keys, i, j, band):
    shared = False
    for t in range(band):
        shared |= keys[i, t] == keys[j, t]
    return shared


@inline
def _matches(left, i, right, j):
    hits = np.int32(0)  # as wide as a position: the sum is then vectorised without widening
    for position in range(left.shape[1]):
        hits = np.int32(hits + np.int32(left[i, position] == right[j, position]))
    return hits


@inline
def _end_of_label(order, sorted_keys, labels, p):
    """Where the bucket that starts at p ends if all of its rows have one label, else p."""
    if p and sorted_keys[p] == sorted_keys[p - 1]:
        return p
    end = p
    while end < order.size and sorted_keys[end] == sorted_keys[p]:
        if labels[order[end]] != labels[order[p]]:
            return p
        end += 1
    return end


@kernel
def pairs(order, sorted_keys, keys, band, labels, signatures, least, star, state, first, second):
    """Fill first and second with pairs of one band, from `state` on; gives how many.

    order: rows by their key of this band, which are sorted_keys. Rows of one label make no pair,
    nor do signatures with fewer than `least` equal positions (a matrix without columns is not
    looked at). `star` pairs only the first row of each bucket with the others, also in bands after
    the first shared one. state: positions of the next pair to look at, past the end when done.
    """
    count, (p, q) = 0, (state[0], state[1])
    while p < order.size:
        end = _end_of_label(order, sorted_keys, labels, p)
        if end > p:
            p, q = end, 0
            continue
        i, q = order[p], max(q, p + 1)
        while q < order.size and sorted_keys[q] == sorted_keys[p]:
            if count == first.size:
                state[0], state[1] = p, q
                return count
            j = order[q]
            q += 1
            if labels[i] == labels[j] or (not star and _shares_earlier(keys, i, j, band)):
                continue
            if signatures.shape[1] == 0 or _matches(signatures, i, signatures, j) >= least:
                first[count], second[count] = min(i, j), max(i, j)
                count += 1
        p, q = (q if star else p + 1), 0
    state[0] = p
    return count


@inline
def _root(parents, i):
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@kernel
def union(first, second, parents):
    """Join the components of each pair; a root is the smallest row, and all point to it after."""
    for p in range(first.size):
        a, b = _root(parents, first[p]), _root(parents, second[p])
        parents[max(a, b)] = min(a, b)
    for i in range(parents.size):
        parents[i] = parents[parents[i]]  # a parent is never larger, so it is final already


@inline
def _slot(key, slots):
    """The slot of a key in an open table, or the free one where it would stand."""
    mask = np.uint64(slots.size - 1)
    at = mix(key) & mask
    while slots[at] != np.uint64(0) and slots[at] != key:
        at = (at + ONE) & mask
    return at


@inline
def _is_like(keys, signatures, i, least, slots, heads, links, stored):
    """Whether row i agrees with a stored row that shares a key in at least `least` positions."""
    bands = keys.shape[1]
    for t in range(bands):
        at = heads[_slot(keys[i, t], slots)]
        while at >= 0:
            if _matches(signatures, i, stored, at // bands) >= least:
                return True
            at = links[at]
    return False


@inline
def _enter(keys, i, row, slots, heads, links):
    bands = keys.shape[1]
    for t in range(bands):
        at = _slot(keys[i, t], slots)
        slots[at] = keys[i, t]
        links[row * bands + t] = heads[at]
        heads[at] = row * bands + t


@kernel
def enter(keys, slots, heads, links):
    """Enter the keys of stored rows 0, 1 and so on into an empty table, as `insert_unlike` does."""
    for i in range(keys.shape[0]):
        _enter(keys, i, i, slots, heads, links)


@kernel
def insert_unlike(keys, signatures, alone, least, slots, heads, links, stored, count, out):
    """out[i] = whether row i is unlike all stored rows; it is then stored too. Gives the new count.

    Rows that are `alone` are out[i] = True without being stored. slots and heads: an open table of
    2**j slots, 0 where free, that leads to the last entry of a key; links lead on to those before,
    -1 at the end. Entry row * bands + t is of band t. Tables must have room for all rows.
    """
    for i in range(keys.shape[0]):
        out[i] = alone[i] or not _is_like(keys, signatures, i, least, slots, heads, links, stored)
        if out[i] and not alone[i]:
            stored[count] = signatures[i]
            _enter(keys, i, count, slots, heads, links)
            count += 1
    return count


@inline
def _bit(key, j, words):
    return row_slot(key * ROW[j], np.uint64(words.size) << np.uint64(6))


@inline
def _in_filter(key, hashes, words):
    for j in range(hashes):
        bit = _bit(key, j, words)
        if not words[bit >> np.uint64(6)] >> (bit & np.uint64(63)) & ONE:
            return False
    return True


@kernel
def insert_unlike_bloom(keys, alone, hashes, words, out):
    """As `insert_unlike`, by a Bloom filter of keys alone; gives how many rows were stored."""
    count = 0
    for i in range(keys.shape[0]):
        out[i] = True
        for t in range(keys.shape[1]):
            if not alone[i] and _in_filter(keys[i, t], hashes, words):
                out[i] = False
                break
        if out[i] and not alone[i]:
            count += 1
            for t in range(keys.shape[1]):
                for j in range(hashes):
                    bit = _bit(keys[i, t], j, words)
                    words[bit >> np.uint64(6)] |= ONE << (bit & np.uint64(63))
    return count

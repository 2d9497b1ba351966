"""Streams of baskets: the pairs of each basket, and scores that fade with every step."""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import kernel

__all__ = ["count", "fade", "pairs"]


@kernel
def pairs(offsets, items, max_items, out):
    """Write i << 32 | j for all i < j of each basket with at most max_items; return how many."""
    n = 0
    for b in range(offsets.size - 1):
        start, stop = offsets[b], offsets[b + 1]
        if stop - start > max_items:
            continue
        for i in range(start, stop):
            first = np.int64(items[i]) << 32
            for j in range(i + 1, stop):
                out[n] = first | items[j]
                n += 1
    return n


@kernel
def count(values, weights, start, limit, keys, counts, used):
    """counts[slot of values[i]] += weights[i], from row start until `limit` slots are used.

    An open table of 2**k slots, more than limit, whose empty slots count 0. weights may have one
    entry, which is that of every value. Returns the first row not done and the slots in use.
    """
    mask = np.uint64(keys.size - 1)
    for i in range(start, values.size):
        value = values[i]
        slot = mix(np.uint64(value)) & mask
        while counts[slot] > 0 and keys[slot] != value:
            slot = (slot + np.uint64(1)) & mask
        if counts[slot] == 0:
            if used == limit:
                return i, used
            keys[slot] = value
            used += 1
        counts[slot] += weights[i if weights.size > 1 else 0]
    return values.size, used


@kernel
def fade(codes, start, rest, scores, times):
    """s[c] = 1 + s[c] rest**(steps since), or 1 where that is below 1/2, for each step's code c.

    The power is taken once from the last occurrence, so that a score does not depend on how a
    stream is split into columns.
    """
    for i in range(codes.size):
        code, now = codes[i], start + i + 1
        left = scores[code] * rest ** float(now - times[code])
        scores[code] = 1.0 + (left if left >= 0.5 else 0.0)
        times[code] = now

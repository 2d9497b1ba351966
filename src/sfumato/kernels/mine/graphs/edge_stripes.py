"""Stripes of a link matrix as they stand on disk: out-degree and destinations of each source.

A chunk covers some sources. A bit per source says whether it has destinations in this chunk; for
each that has, the words are its out-degree and its destinations, of which the last is complemented.
"""

import numpy as np

from sfumato.kernels.jit import kernel

__all__ = ["encode", "finish", "scatter"]


@kernel
def encode(begins, ends, degrees, start, sources, bits, words):
    """Encode edges from `start` on, which are sorted by source, as far as they fit.

    degrees: out-degree of the source of each edge. Returns the number of sources that the chunk
    covers, from begins[start] on, of those with edges, of words, and the next edge.
    """
    bits[:] = 0
    first, at, size, records, last = begins[start], start, 0, 0, -1
    while at < begins.size and begins[at] < first + sources and size + 2 <= words.size:
        source = begins[at]
        if source != last:
            if size > 0:
                words[size - 1] = ~words[size - 1]
            bits[(source - first) >> 3] |= np.uint8(1 << ((source - first) & 7))
            words[size] = degrees[at]
            size += 1
            records += 1
            last = source
        words[size] = ends[at]
        size += 1
        at += 1
    words[size - 1] = ~words[size - 1]
    return last - first + 1, records, size, at


@kernel
def scatter(bits, words, ranks, beta, low, block):
    """block[destination - low] += beta * rank / out-degree, for destinations inside the block.

    Returns whether the words are those of the sources that the bits name, to the last.
    """
    at = 0
    for i in range(ranks.size):
        if not (bits[i >> 3] >> (i & 7)) & 1:
            continue
        if at + 2 > words.size or words[at] <= 0:
            return False
        given = beta * ranks[i] / words[at]
        at += 1
        last = False
        while not last:
            if at == words.size:
                return False
            target = words[at]
            at += 1
            last = target < 0
            target = ~target if last else target
            if low <= target < low + block.size:
                block[target - low] += given
    return at == words.size


@kernel
def finish(new, old, bits, constant):
    """Add a constant to new ranks; returns the L1 distance from the old and the sum of live ones.

    bits: whether these nodes have out-edges.
    """
    change = alive = 0.0
    for i in range(new.size):
        new[i] += constant
        change += abs(new[i] - old[i])
        if (bits[i >> 3] >> (i & 7)) & 1:
            alive += new[i]
    return change, alive

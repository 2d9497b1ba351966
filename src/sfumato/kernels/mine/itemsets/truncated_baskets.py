"""Baskets cut to a public number of items.

What is left of a basket depends on its own items, not on other baskets.
"""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["cut"]


@inline
def _mark(row, b, hashes, places, latest):
    """A number of the set of items that have a place, whatever their order.

    latest: the last basket in which each place was met, so that two codes of a place count once.
    """
    total = np.uint64(0)
    for i in range(row.size):
        place = places[row[i]]
        if place >= 0 and latest[place] != b:
            latest[place] = b
            total += hashes[row[i]]
    return mix(total)


@kernel
def cut(offsets, items, hashes, places, latest, sampled, most, best, out_offsets, out):
    """Write the places of at most `most` different items of each basket; return how many.

    places[c] is the public position of code c, negative if it has none, in which case it is left
    out. If `sampled`, the items with the smallest hash of basket and item stay, ties by place;
    else those with the smallest place. best: room for `most` numbers; latest: -1 for each place.
    """
    end = 0
    out_offsets[0] = 0
    for b in range(offsets.size - 1):
        row = items[offsets[b] : offsets[b + 1]]
        mark = _mark(row, b, hashes, places, latest) if sampled else np.uint64(0)
        size = 0
        for i in range(row.size):
            place = places[row[i]]
            if place < 0:
                continue
            rank = mix(hashes[row[i]] ^ mark) if sampled else np.uint64(0)
            at = size
            while at > 0 and (
                best[at - 1] > rank or (best[at - 1] == rank and out[end + at - 1] > place)
            ):
                at -= 1
            if at > 0 and best[at - 1] == rank and out[end + at - 1] == place:
                continue
            if at == most:
                continue
            size = min(size + 1, most)
            for k in range(size - 1, at, -1):
                best[k], out[end + k] = best[k - 1], out[end + k - 1]
            best[at], out[end + at] = rank, place
        end += size
        out_offsets[b + 1] = end
    return end

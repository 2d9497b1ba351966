"""Minima of hashed tokens, one row a set: under many permutations, in bins, or the lowest of one.

Every kernel lowers the rows of `out`, so a set may arrive in parts: row r takes in the tokens
bounds[r] to bounds[r + 1] of `values`. Those are HASHES, INTEGERS or UNSIGNED 64-bit ones, as
`form` says; integers are hashed here, a few at a time, so that no column of hashes is written.
EMPTY marks a minimum of nothing; a token whose 32 bits are EMPTY is ignored (p = 2**-32).

Similarity of rows of signatures: the fraction of equal positions, or of shared lowest values. Codes
of many sets, sixteen table rows at a time: equal with probability equal to the similarity of the
sets.
"""

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix, of_integer, of_unsigned
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    load,
    minimum,
    select,
    store,
    u32x16,
)
from sfumato.kernels.sketch.layout import EMPTY, HASHES, INTEGERS, ROWS, STEP, UNSIGNED

__all__ = [
    "EMPTY",
    "HASHES",
    "INTEGERS",
    "ROWS",
    "STEP",
    "UNSIGNED",
    "bin_minima",
    "cut",
    "densify",
    "equal_pairs",
    "equal_table",
    "first_visits",
    "keep_lowest",
    "minima",
    "permute",
    "shared_pairs",
    "shared_table",
]

TRIES = 256  # bins that an empty one looks at before it compares all full ones
FEW = 2**15  # full**2 * bins / empty below which the table of visits is faster, as measured
HALF = np.uint64(32)
CHUNK = np.uint64(256)
SHORT = np.uint64(64)  # short enough that the CPU hashes a chunk while it still bins the last


@inline
def _hash(values, at, count, key, form, out):
    if form == HASHES:
        for i in range(count):
            out[i] = np.uint64(values[at + i])
    elif form == UNSIGNED:
        for i in range(count):
            out[i] = of_unsigned(np.uint64(values[at + i]), key)
    else:
        for i in range(count):
            out[i] = of_integer(values[at + i], key)


@inline
def _lower(hashes, count, a, b, lowest):
    for j in range(0, a.size, STEP):
        a0, b0, low0 = load(a, j), load(b, j), load(lowest, j)
        a1, b1, low1 = load(a, j + 16), load(b, j + 16), load(lowest, j + 16)
        for i in range(count):
            x = u32x16(np.uint32(hashes[i]))
            low0 = minimum(low0, a0 * x + b0)
            low1 = minimum(low1, a1 * x + b1)
        store(lowest, j, low0)
        store(lowest, j + 16, low1)


@kernel
def permute(values, key, form, bounds, a, b, out):
    """out[r, j] = min(out[r, j], a[j] x + b[j] mod 2**32) over the low halves x of the hashes."""
    hashes = np.empty(CHUNK, np.uint64)
    lowest = np.empty(a.size, np.uint32)
    lowest[:] = EMPTY
    for r in range(out.shape[0]):
        for j in range(out.shape[1]):
            lowest[j] = out[r, j]
        at, end = np.uint64(bounds[r]), np.uint64(bounds[r + 1])
        while at < end:
            count = min(CHUNK, end - at)
            _hash(values, at, count, key, form, hashes)
            _lower(hashes, count, a, b, lowest)
            at += count
        for j in range(out.shape[1]):
            out[r, j] = lowest[j]


@kernel
def bin_minima(values, key, form, bounds, out):
    """out[r, bin] = min(out[r, bin], low half), where the hash's high half chooses the bin."""
    hashes = np.empty(SHORT, np.uint64)
    bins = np.uint64(out.shape[1])
    for r in range(out.shape[0]):
        at, end = np.uint64(bounds[r]), np.uint64(bounds[r + 1])
        while at < end:
            count = min(SHORT, end - at)
            _hash(values, at, count, key, form, hashes)
            for i in range(count):
                hashes[i] = ((hashes[i] >> HALF) * bins >> HALF) << HALF | np.uint64(
                    np.uint32(hashes[i])
                )
            for i in range(count):
                cell = hashes[i] >> HALF
                out[r, cell] = min(out[r, cell], np.uint32(hashes[i]))
            at += count


@kernel
def keep_lowest(values, key, form, bounds, out):
    """out[r] = the lowest distinct low halves, ascending, EMPTY where there are no more."""
    n_minima = out.shape[1]
    hashes = np.empty(CHUNK, np.uint64)
    pool = np.empty(2 * n_minima + np.int64(CHUNK), np.uint32)
    for r in range(out.shape[0]):
        used, bar = 0, out[r, n_minima - 1]
        while used < n_minima and out[r, used] != EMPTY:
            pool[used] = out[r, used]
            used += 1
        at, end = np.uint64(bounds[r]), np.uint64(bounds[r + 1])
        while at < end:
            count = min(CHUNK, end - at)
            _hash(values, at, count, key, form, hashes)
            used = _pool(hashes, count, pool, used, bar)
            if used > 2 * n_minima:
                used = _shrink(pool, used, n_minima)
                bar = pool[n_minima - 1]
            at += count
        _shrink(pool, used, n_minima)
        out[r] = pool[:n_minima]


@inline
def _pool(hashes, count, pool, used, bar):
    for i in range(count):
        pool[used] = np.uint32(hashes[i])
        used += np.uint32(hashes[i]) < bar
    return used


@inline
def _shrink(pool, used, n_minima):
    """Sort what is pooled, drop repeats, and leave the lowest, filled up with EMPTY."""
    pool[:used].sort()
    size = 0
    for i in range(used):
        if size < n_minima and (size == 0 or pool[i] != pool[size - 1]):
            pool[size] = pool[i]
            size += 1
    pool[size:n_minima] = EMPTY
    return size


@inline
def _sequence(j):
    """The first number of bin j, and how far apart its numbers are; their high halves give bins."""
    position = mix(np.uint64(j) + GOLDEN)
    return position, position << HALF | np.uint64(1) << HALF  # odd: no bin comes twice too soon


@kernel
def first_visits(bins, out):
    """out[d, j] = which try of bin j, if it is empty, looks at bin d first; TRIES if none does."""
    out[:] = TRIES
    for j in range(bins):
        position, stride = _sequence(j)
        for visit in range(TRIES):
            donor = (position >> HALF) * np.uint64(bins) >> HALF
            out[donor, j] = min(out[donor, j], np.uint32(visit))
            position += stride


@kernel
def densify(visits, out):
    """Fill each empty bin from the first full one of its own fixed random sequence of bins.

    Where the first TRIES are all empty, so that few bins are full, the full one of the lowest hash
    takes its place. Both rules agree for two sets with probability equal to their similarity.

    While few bins are full, all empty ones compare the `visits` of these, sixteen at a time; that
    table, of rows in multiples of sixteen, may be empty. Otherwise each empty bin tries its own.
    """
    bins, width = out.shape[1], visits.shape[1]
    full, dense = np.zeros(max(bins, width), np.uint32), np.empty(width, np.uint32)
    positions = np.empty(bins, np.uint32)
    for r in range(out.shape[0]):
        filled = 0
        for j in range(bins):
            full[j] = out[r, j]
            positions[filled] = j
            filled += full[j] != EMPTY
        if filled == 0 or filled == bins:
            continue
        if width and filled * filled * bins < FEW * (bins - filled):
            _fill_from_first(visits, full, positions[:filled], dense)
            for j in range(bins):
                out[r, j] = dense[j]
        else:
            _fill_by_tries(full, positions[:filled], out[r])


@inline
def _fill_from_first(visits, full, positions, out):
    width = visits.shape[1]
    for first in range(0, width, ROWS):
        visit, value = u32x16(TRIES), u32x16(EMPTY)
        for d in positions:
            other = load(visits, d * width + first)
            value = select(other < visit, full[d], value)
            visit = minimum(other, visit)
        own = load(full, first)
        store(out, first, select(own == EMPTY, value, own))
        left = bits((own == EMPTY) & (visit == TRIES))
        while left:
            j = first + count_trailing_zeros(left)
            out[j] = full[_lowest(j, positions)]
            left &= left - np.uint64(1)


@inline
def _fill_by_tries(full, positions, out):
    for j in range(out.size):
        if full[j] == EMPTY:
            out[j] = full[_donor(full, out.size, j, positions)]


@inline
def _donor(full, bins, j, positions):
    position, stride = _sequence(j)
    for _ in range(TRIES):
        donor = (position >> HALF) * np.uint64(bins) >> HALF
        if full[donor] != EMPTY:
            return donor
        position += stride
    return _lowest(j, positions)


@inline
def _lowest(j, positions):
    """The full bin of the lowest hash, for an empty bin that tried in vain."""
    position, stride = _sequence(j)
    position += stride * np.uint64(TRIES)
    donor, lowest = np.uint64(positions[0]), mix(position ^ np.uint64(positions[0]))
    for other in positions:
        rank = mix(position ^ np.uint64(other))
        if rank < lowest:
            donor, lowest = np.uint64(other), rank
    return donor


@kernel
def cut(minima, bits, out):
    """out = `bits` bits of each minimum, mixed first: a minimum's own high bits are mostly zero,
    and its low bits under a[j] x + b[j] are those of x, alike in all permutations."""
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for r in range(minima.shape[0]):
        for j in range(minima.shape[1]):
            mixed = mix(np.uint64(minima[r, j])) >> HALF & last
            out[r, j] = last if minima[r, j] == EMPTY else mixed


TILE = 32  # rows of the left matrix that stay in the cache while the right one passes


@inline
def _equal(left, i, right, j):
    hits = np.int32(0)  # as wide as a position: the sum is then vectorised without widening
    for position in range(left.shape[1]):
        hits = np.int32(hits + np.int32(left[i, position] == right[j, position]))
    return hits / left.shape[1]


@inline
def _shared(left, i, right, j):
    """The part of the lowest values of both ascending rows together that is in each of them."""
    size = hits = a = b = 0
    n_minima = left.shape[1]
    while size < n_minima and (a < n_minima or b < n_minima):
        x = left[i, a] if a < n_minima else EMPTY
        y = right[j, b] if b < n_minima else EMPTY
        if x == EMPTY and y == EMPTY:
            break
        size += 1
        hits += x == y
        a += x <= y
        b += y <= x
    return hits / size if size else 1.0


@kernel
def equal_pairs(left, right, out):
    """out[i] = the fraction of positions where row i of both matrices is equal."""
    for i in range(out.size):
        out[i] = _equal(left, i, right, i)


@kernel
def equal_table(left, right, out):
    """out[i, j] = the fraction of positions where row i of left equals row j of right."""
    for start in range(0, out.shape[0], TILE):
        for j in range(out.shape[1]):
            for i in range(start, min(start + TILE, out.shape[0])):
                out[i, j] = _equal(left, i, right, j)


@kernel
def shared_pairs(left, right, out):
    """out[i] = the part of the lowest values of row i of both matrices that is in each."""
    for i in range(out.size):
        out[i] = _shared(left, i, right, i)


@kernel
def shared_table(left, right, out):
    """out[i, j] = the part of the lowest values of rows i and j together that is in each."""
    for start in range(0, out.shape[0], TILE):
        for j in range(out.shape[1]):
            for i in range(start, min(start + TILE, out.shape[0])):
                out[i, j] = _shared(left, i, right, j)


LAST = np.uint32(0x9E3779B1)  # odd: takes what was folded down up to the high bits again


@inline
def _code(members, start, end, words):
    """The codes of one set, in all lanes."""
    code = u32x16(0)
    for q in range(words.shape[0]):
        k, a = load(words, 64 * q), load(words, 64 * q + 16)
        b, c = load(words, 64 * q + 32), load(words, 64 * q + 48)
        lowest = u32x16(np.uint32(2**32 - 1))
        for m in range(start, end):
            mixed = (u32x16(members[m]) ^ k) * a
            lowest = minimum(lowest, (mixed ^ mixed >> 15) * b)
        code = (code ^ lowest) * c
        code = code ^ code >> 16
    return code * LAST


@kernel
def minima(members, bounds, words, out):
    """out[j, i] = the code in row j of the set of members bounds[i] to bounds[i + 1].

    words[q, 0 to 3] are k, a, b and c of hash q in all lanes; all but k are odd. An empty set has
    the code of the minima 2**32 - 1, which a full one has with p = (size / 2**32) ** hashes.
    """
    rows, size = out.shape
    few = np.empty(ROWS * ROWS, np.uint32)
    for first in range(0, size, ROWS):  # so that rows are written in runs
        count = min(ROWS, size - first)
        for i in range(count):
            at = first + i
            store(few, ROWS * i, _code(members, bounds[at], bounds[at + 1], words))
        for j in range(rows):
            for i in range(count):
                out[j, first + i] = few[ROWS * i + j]

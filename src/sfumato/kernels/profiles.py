"""Profiles in a row: items gathered by user, sorted, each once."""

import numpy as np

from ._jit import inline, kernel

__all__ = ["arrange", "gather", "settle", "tally"]

MOST = 4096  # values of a run that are spread over as many buckets; longer runs are just sorted
CROWD = 16  # values in a bucket beyond which they were not uniform


@kernel
def tally(codes, starts):
    """starts[c + 1] += how many rows have code c."""
    for i in range(codes.size):
        starts[codes[i] + 1] += 1


@kernel
def gather(codes, places, values, ends, out):
    """out[starts[c] : starts[c + 1]] = values[places] of the rows of code c; ends starts so."""
    for i in range(codes.size):
        out[ends[codes[i]]] = values[places[i]]
        ends[codes[i]] += 1


@inline
def _spread(run, ends, scratch):
    """Sort hashes by buckets of their first bits, about one each; False where they crowd."""
    digits = 0
    while (1 << digits) < run.size:
        digits += 1
    shift, buckets, most = np.uint64(64 - digits), 1 << digits, 0
    ends[: buckets + 1] = 0
    for i in range(run.size):
        ends[(run[i] >> shift) + np.uint64(1)] += 1
    for b in range(1, buckets + 1):
        most = max(most, ends[b])
        ends[b] += ends[b - 1]
    if most > CROWD:
        return False
    for i in range(run.size):
        bucket = run[i] >> shift
        scratch[ends[bucket]] = run[i]
        ends[bucket] += 1
    for i in range(run.size):
        j = i
        while j > 0 and run[j - 1] > scratch[i]:
            run[j] = run[j - 1]
            j -= 1
        run[j] = scratch[i]
    return True


@kernel
def settle(starts, values):
    """Sort the hashes of each run, drop repeats, move all together; starts follows."""
    ends, scratch = np.empty(2 * MOST + 1, np.int32), np.empty(MOST, np.uint64)
    kept = 0
    for c in range(starts.size - 1):
        first, last = starts[c], starts[c + 1]
        run = values[first:last]
        if run.size < 2 or run.size > MOST or not _spread(run, ends, scratch):
            run.sort()
        starts[c] = kept
        for i in range(first, last):
            if i == first or values[i] != values[kept - 1]:
                values[kept] = values[i]
                kept += 1
    starts[starts.size - 1] = kept


@kernel
def arrange(starts, values, order, new_starts, out):
    """The run order[c] of the values becomes the run c of out; an order of -1 stands for none."""
    for c in range(order.size):
        if order[c] >= 0:
            at = starts[order[c]]
            for i in range(new_starts[c], new_starts[c + 1]):
                out[i] = values[at]
                at += 1

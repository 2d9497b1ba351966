"""Reports of marked cells: which of them a table can hold, and how often each cell was marked.

A payload marks cell i by bit i & 7 of byte i >> 3, or names one cell by 4 bytes, lowest first.

Sorted runs of numbers: which of one are in another, in one pass over both.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, mask8, population_count, select, store, u64x8

__all__ = ["COHORT", "MARKS", "add_bits", "add_symbols", "among", "judge_bits", "judge_symbols"]

COHORT, MARKS = 1, 2


@inline
def _symbol(row):
    return (
        np.int64(row[0]) | np.int64(row[1]) << 8 | np.int64(row[2]) << 16 | np.int64(row[3]) << 24
    )


@kernel
def judge_bits(cohorts, payload, count, cells, marks, out):
    """out[r] = COHORT for one not below `count`, else MARKS for a bit beyond `cells` or a number of
    bits other than `marks` (any, if negative), else 0."""
    width = payload.shape[1]
    spare = np.uint64(256 - (1 << ((cells - 1) % 8 + 1)))
    for r in range(payload.shape[0]):
        wrong = np.uint64(payload[r, width - 1]) & spare != np.uint64(0)
        if marks >= 0 and not wrong:
            found = 0
            for b in range(width):
                found += population_count(np.uint64(payload[r, b]))
            wrong = found != marks
        out[r] = MARKS if wrong else 0
        if cohorts[r] < 0 or cohorts[r] >= count:
            out[r] = COHORT


@kernel
def judge_symbols(cohorts, payload, count, cells, out):
    """out[r] = COHORT for one not below `count`, else MARKS for a symbol beyond `cells`, else 0."""
    for r in range(payload.shape[0]):
        out[r] = MARKS if _symbol(payload[r]) >= cells else 0
        if cohorts[r] < 0 or cohorts[r] >= count:
            out[r] = COHORT


@kernel
def add_bits(cohorts, payload, keep, totals, table):
    """totals[cohort] += 1 and table[cohort, i] += bit i, for every report that is kept."""
    width, cells = payload.shape[1], table.shape[1]
    whole = cells // 8
    one, zero = u64x8(1), u64x8(0)
    for r in range(payload.shape[0]):
        if not keep[r]:
            continue
        cohort = np.int64(cohorts[r])
        totals[cohort] += np.uint64(1)
        at = cohort * cells
        for b in range(whole):
            marked = select(mask8(payload[r, b]), one, zero)
            store(table, at + 8 * b, load(table, at + 8 * b) + marked)
        if whole < width:
            last = payload[r, whole]
            for i in range(cells - 8 * whole):
                table[cohort, 8 * whole + i] += np.uint64(last >> i & 1)


@kernel
def add_symbols(cohorts, payload, keep, totals, table):
    """totals[cohort] += 1 and table[cohort, symbol] += 1, for every report that is kept."""
    for r in range(payload.shape[0]):
        if keep[r]:
            totals[cohorts[r]] += np.uint64(1)
            table[cohorts[r], _symbol(payload[r])] += np.uint64(1)


@kernel
def among(run, queries, out):
    """out[i] = whether queries[i] is in the run; both are sorted."""
    size, low = run.size, 0
    for i in range(queries.size):
        # The position is near the last one: twice as far each time, then halves between.
        step, high = 1, low
        while high < size and run[high] < queries[i]:
            low = high + 1
            high += step
            step *= 2
        high = min(high, size)
        while low < high:
            middle = (low + high) // 2
            if run[middle] < queries[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low < size and run[low] == queries[i]

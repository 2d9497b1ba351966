"""Eclat: depth first over itemsets, each branch with the baskets of its extensions.

Items are codes 0, 1, ... by decreasing frequency. The branch of item i has the extensions j < i
that are frequent with it; an itemset grows from its rarest item. The baskets of an extension are a
bitset, a list of tids (transaction ids, where few are set), or a diffset (those of the branch that
lack it, where few do). Tids count the baskets of the branch, so bitsets are short.

`mine` can stop at any step and go on later: all its state is in arrays. They are
state    settings and position, by the names below
frames   one row per depth: FIRST, END of its extensions, AT the next of them, KIND, WIDTH in words
         of a bitset, and the ends of what it uses of `words` and `lists`
branches one row per extension: ITEM, COUNT, START in `words` or `lists`, LENGTH of its list
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    load,
    popcount,
    prefetch,
    store,
    total,
    u32x16,
    u64x8,
)

__all__ = ["mine", "tally_sizes", "transpose", "unfold"]

MIN_COUNT, MAX_SIZE, SPARSE, DENSE, NEXT, OPENED, DEPTH, FOUND = range(8)  # of state
FIRST, END, AT, KIND, WIDTH, WORDS_END, LISTS_END = range(7)  # of frames
ITEM, COUNT, START, LENGTH = range(4)  # of branches
BITS, TIDS, DIFFS = range(3)  # kinds
RUNNING, DONE, OUT_FULL, WORDS_FULL, LISTS_FULL, BRANCHES_FULL = range(6)  # what `mine` returns
ONE = np.uint64(1)
AHEAD = 12  # rows that are fetched before they are read
SPARE = 32  # words before the bitsets, beside one bitset, for what is not an extension


@kernel
def transpose(offsets, codes, ranks, n, last, ends, tids, rows):
    """Prepare rows of items, and write where they start to the list of each of their items.

    A row is its size, 0, and room for the ranks below n of a basket, filled with n, ..., n + 3 up
    to a multiple of 4, so that four at a time can be read without a test. last: -1 everywhere.
    """
    end = 0
    for b in range(offsets.size - 1):
        size = 0
        for k in range(offsets[b], offsets[b + 1]):
            i = ranks[codes[k]]
            if i < n and last[i] != b:
                last[i] = b
                tids[ends[i]] = end
                ends[i] += 1
                size += 1
        if size:
            rows[end] = 0
            for k in range((size + 3) // 4 * 4):
                rows[end + 1 + k] = n + (k & 3)
            end += 1 + (size + 3) // 4 * 4


@kernel
def mine(
    state, starts, tids, rows, counters, places, frames, branches, words, lists, marks, out
):
    """Write (size, item, count) of frequent itemsets to `out`, state[FOUND] of them, depth first.

    An itemset is its item and those of the last smaller sizes before it. counters, marks: 0;
    places: 8 * (j % 4) for j; the trailing entries of counters and places are for items n + 3 and
    whole lanes.
    """
    state[FOUND] = 0
    status = RUNNING
    while status == RUNNING:
        if state[DEPTH] == 0:
            status = _next_item(
                state, starts, tids, rows, counters, places, frames, branches, words, lists, out
            )
        else:
            status = _next_extension(state, frames, branches, words, lists, marks, out)
    return status


@inline
def _write(state, out, size, item, count):
    found = state[FOUND]
    out[found, 0], out[found, 1], out[found, 2] = size, item, count
    state[FOUND] = found + 1


@inline
def _next_item(
    state, starts, tids, rows, counters, places, frames, branches, words, lists, out
):
    """Write the next item, and enter its branch if there is something to extend it by."""
    i = state[NEXT]
    if i == starts.size - 1:
        return DONE
    if branches.shape[0] < i:
        return BRANCHES_FULL
    mine = tids[starts[i] : starts[i + 1]]
    if state[OPENED] < 0:
        state[OPENED] = (
            _count_pairs(i, mine, rows, counters, state[MIN_COUNT], branches)
            if state[MAX_SIZE] > 1
            else 0
        )
    m = state[OPENED]
    if out.shape[0] - state[FOUND] < m + 1:
        return OUT_FULL
    deeper = m > 1 and state[MAX_SIZE] > 2
    if deeper:
        spare = (starts[1] + 511) // 512 * 8 + SPARE
        status = _open(state, mine, rows, places, frames, branches, words, lists, spare, m)
        if status != RUNNING:
            return status
    _write(state, out, 1, i, mine.size)
    if not deeper:
        for e in range(m):
            _write(state, out, 2, branches[e, ITEM], branches[e, COUNT])
    _append(i, mine, rows)
    state[NEXT], state[OPENED], state[DEPTH] = i + 1, -1, np.int64(deeper)
    return RUNNING


@inline
def _count_pairs(i, mine, rows, counters, min_count, branches):
    """One row of the triangle of pairs: the items frequent with i become its extensions."""
    for k in range(mine.size):
        prefetch(rows, np.int64(mine[min(k + AHEAD, mine.size - 1)]))
        row = np.int64(mine[k])
        for r in range(row + 1, row + 1 + np.int64(rows[row]), 4):
            counters[rows[r]] += 1
            counters[rows[r + 1]] += 1
            counters[rows[r + 2]] += 1
            counters[rows[r + 3]] += 1
    m = 0
    for j in range(0, i, 16):
        above = bits(load(counters, j) >= u32x16(min_count))
        while above:
            item = j + count_trailing_zeros(above)
            above &= above - ONE
            if item < i:
                branches[m, ITEM], branches[m, COUNT] = item, counters[item]
                m += 1
    counters[:i] = 0
    return m


@inline
def _append(i, mine, rows):
    """Put i at the end of its rows, which so far have the items before it."""
    for k in range(mine.size):
        prefetch(rows, np.int64(mine[min(k + AHEAD, mine.size - 1)]))
        row = np.int64(mine[k])
        rows[row] += 1
        rows[row + np.int64(rows[row])] = i


@inline
def _open(state, mine, rows, places, frames, branches, words, lists, spare, m):
    """The branch of an item: bitsets of its extensions, or lists where few bits would be set."""
    width, entries = (mine.size + 511) // 512 * 8, 0
    for e in range(m):
        entries += branches[e, COUNT]
    sparse = entries * state[SPARSE] < m * width
    if sparse and entries > lists.size:
        return LISTS_FULL
    if not sparse and spare + m * width > words.size:
        return WORDS_FULL
    if sparse:
        _fill_lists(mine, rows, places, branches, lists, m)
    else:
        _fill_words(mine, rows, places, branches, words, spare, width, m)
    frames[1, FIRST], frames[1, END], frames[1, AT] = 0, m, 0
    frames[1, KIND], frames[1, WIDTH] = TIDS if sparse else BITS, width
    frames[1, WORDS_END] = 0 if sparse else spare + m * width
    frames[1, LISTS_END] = entries if sparse else 0
    return RUNNING


@inline
def _fill_words(mine, rows, places, branches, words, spare, width, m):
    # Items that are no extension set bits in the spare words: a branch would be guessed wrong half
    # of the time. They have several places there, so that one write need not wait for another.
    words[spare : spare + m * width] = 0
    for e in range(m):
        branches[e, START] = spare + e * width
        places[branches[e, ITEM]] = branches[e, START]
    for k in range(mine.size):
        prefetch(rows, np.int64(mine[min(k + AHEAD, mine.size - 1)]))
        row, word, bit = np.int64(mine[k]), k >> 6, ONE << np.uint64(k & 63)
        for r in range(row + 1, row + 1 + np.int64(rows[row]), 4):
            words[places[rows[r]] + word] |= bit
            words[places[rows[r + 1]] + word] |= bit
            words[places[rows[r + 2]] + word] |= bit
            words[places[rows[r + 3]] + word] |= bit
    for e in range(m):
        places[branches[e, ITEM]] = 8 * (branches[e, ITEM] & 3)


@inline
def _fill_lists(mine, rows, places, branches, lists, m):
    end = 0
    for e in range(m):
        branches[e, START], branches[e, LENGTH] = end, 0
        places[branches[e, ITEM]] = -1 - e
        end += branches[e, COUNT]
    for k in range(mine.size):
        row = np.int64(mine[k])
        for r in range(row + 1, row + 1 + np.int64(rows[row])):
            e = -1 - places[rows[r]]
            if e >= 0:
                lists[branches[e, START] + branches[e, LENGTH]] = k
                branches[e, LENGTH] += 1
    for e in range(m):
        places[branches[e, ITEM]] = 8 * (branches[e, ITEM] & 3)


@inline
def _next_extension(state, frames, branches, words, lists, marks, out):
    """Write the next extension of the deepest branch, and enter its own if it has one."""
    depth = state[DEPTH]
    me, first, end = frames[depth, AT], frames[depth, FIRST], frames[depth, END]
    if me == end:
        state[DEPTH] -= 1
        return RUNNING
    if out.shape[0] - state[FOUND] < me - first + 1:
        return OUT_FULL
    if branches.shape[0] < end + me - first:
        return BRANCHES_FULL
    if me > first and depth + 1 < state[MAX_SIZE]:
        status = _narrow(state, depth, me, frames, branches, words, lists, marks)
        if status != RUNNING:
            return status
        m = frames[depth + 1, END] - end
    else:
        m = 0
    _write(state, out, depth + 1, branches[me, ITEM], branches[me, COUNT])
    frames[depth, AT] = me + 1
    if m > 1 and depth + 2 < state[MAX_SIZE]:
        state[DEPTH] = depth + 1
    else:
        for e in range(end, end + m):
            _write(state, out, depth + 2, branches[e, ITEM], branches[e, COUNT])
    return RUNNING


@inline
def _narrow(state, depth, me, frames, branches, words, lists, marks):
    """The branch of an extension: those before it that are frequent together with it."""
    kind, width, min_count = frames[depth, KIND], frames[depth, WIDTH], state[MIN_COUNT]
    end = frames[depth, END]
    frames[depth + 1, FIRST] = frames[depth + 1, END] = frames[depth + 1, AT] = end
    frames[depth + 1, WORDS_END] = frames[depth, WORDS_END]
    frames[depth + 1, LISTS_END] = frames[depth, LISTS_END]
    frames[depth + 1, KIND] = kind
    if kind == DIFFS:
        return _narrow_diffs(min_count, depth, me, frames, branches, lists, marks)
    if kind == TIDS:
        width = (branches[me, COUNT] + 511) // 512 * 8
    frames[depth + 1, KIND], frames[depth + 1, WIDTH] = BITS, width
    if frames[depth, WORDS_END] + (me - frames[depth, FIRST] + 2) * width > words.size:
        return WORDS_FULL
    if kind == TIDS:
        whole = _narrow_tids(min_count, depth, me, frames, branches, words, lists, marks)
    else:
        whole = _narrow_bits(min_count, depth, me, frames, branches, words)
    return _choose(state, depth + 1, me, whole, frames, branches, words, lists)


@inline
def _put(branches, at, item, count, start, length):
    branches[at, ITEM], branches[at, COUNT] = item, count
    branches[at, START], branches[at, LENGTH] = start, length


@inline
def _intersect(words, first, second, width, out):
    """words[out...] = the baskets in both bitsets; returns how many."""
    counts = u64x8(0)
    for w in range(0, width, 8):
        both = load(words, first + w) & load(words, second + w)
        store(words, out + w, both)
        counts = counts + popcount(both)
    return np.int64(total(counts))


@inline
def _narrow_bits(min_count, depth, me, frames, branches, words):
    width, mine = frames[depth, WIDTH], branches[me, START]
    at, end = frames[depth, END], frames[depth, WORDS_END]
    for e in range(frames[depth, FIRST], me):
        count = _intersect(words, mine, branches[e, START], width, end)
        if count >= min_count:
            _put(branches, at, branches[e, ITEM], count, end, 0)
            at += 1
            end += width
    frames[depth + 1, END], frames[depth + 1, WORDS_END] = at, end
    return mine


@inline
def _narrow_tids(min_count, depth, me, frames, branches, words, lists, marks):
    """Bitsets over the tids of `me`; returns where the bitset of all of them is."""
    width, whole, size = frames[depth + 1, WIDTH], frames[depth, WORDS_END], branches[me, COUNT]
    words[whole : whole + width] = 0
    for k in range(size):
        marks[lists[branches[me, START] + k]] = k + 1
        words[whole + (k >> 6)] |= ONE << np.uint64(k & 63)
    at, end = frames[depth, END], whole + width
    for e in range(frames[depth, FIRST], me):
        count = 0
        words[end : end + width] = 0
        for k in range(branches[e, COUNT]):
            mark = np.int64(marks[lists[branches[e, START] + k]])
            if mark:
                words[end + ((mark - 1) >> 6)] |= ONE << np.uint64((mark - 1) & 63)
                count += 1
        if count >= min_count:
            _put(branches, at, branches[e, ITEM], count, end, 0)
            at += 1
            end += width
    for k in range(size):
        marks[lists[branches[me, START] + k]] = 0
    frames[depth + 1, END], frames[depth + 1, WORDS_END] = at, end
    return whole


@inline
def _narrow_diffs(min_count, depth, me, frames, branches, lists, marks):
    """Diffset of (me, e) = the baskets that lack e and not me."""
    room, at, start = 0, frames[depth, END], frames[depth, LISTS_END]
    for e in range(frames[depth, FIRST], me):
        room += branches[e, LENGTH]
    if start + room > lists.size:
        return LISTS_FULL
    for k in range(branches[me, LENGTH]):
        marks[lists[branches[me, START] + k]] = 1
    for e in range(frames[depth, FIRST], me):
        end = start
        for k in range(branches[e, LENGTH]):
            tid = lists[branches[e, START] + k]
            lists[end] = tid
            end += 1 - marks[tid]
        count = branches[me, COUNT] - (end - start)
        if count >= min_count:
            _put(branches, at, branches[e, ITEM], count, start, end - start)
            at += 1
            start = end
    for k in range(branches[me, LENGTH]):
        marks[lists[branches[me, START] + k]] = 0
    frames[depth + 1, END], frames[depth + 1, LISTS_END] = at, start
    return RUNNING


@inline
def _choose(state, depth, me, whole, frames, branches, words, lists):
    """Turn the bitsets of a branch into tids or diffsets where these are much shorter."""
    first, last, width, entries = frames[depth, FIRST], frames[depth, END], frames[depth, WIDTH], 0
    if last - first < 2:
        return RUNNING
    for e in range(first, last):
        entries += branches[e, COUNT]
    lacking = (last - first) * branches[me, COUNT] - entries
    sparse = entries * state[SPARSE] < (last - first) * width
    dense = lacking * state[DENSE] < (last - first) * width
    if not sparse and not dense:
        return RUNNING
    tids = sparse and not (dense and lacking < entries)
    end = frames[depth, LISTS_END]
    if end + (entries if tids else lacking) > lists.size:
        return LISTS_FULL
    for e in range(first, last):
        start = end
        end = _list_bits(words, whole, branches[e, START], width, tids, lists, start)
        branches[e, START], branches[e, LENGTH] = start, end - start
    frames[depth, KIND], frames[depth, LISTS_END] = TIDS if tids else DIFFS, end
    return RUNNING


@inline
def _list_bits(words, whole, bitset, width, tids, lists, end):
    """Append the tids in a bitset, or the others of the branch, to lists[end...]."""
    for w in range(width):
        word = words[bitset + w]
        if not tids:
            word = words[whole + w] & ~word
        while word:
            lists[end] = 64 * w + count_trailing_zeros(word)
            word &= word - ONE
            end += 1
    return end


@kernel
def tally_sizes(found, sizes):
    """sizes[k] += how many itemsets are of size k."""
    for r in range(found.shape[0]):
        sizes[found[r, 0]] += 1


@kernel
def unfold(found, path, begins, ends, sizes, codes, counts):
    """Write the itemsets of size k by columns of codes, the most frequent item first.

    Column c of size k starts at codes[begins[k] + c * sizes[k]], and its counts end, so far, at
    counts[ends[k]]. path: the items of the last itemset, in and out, as `found` comes in parts.
    """
    for r in range(found.shape[0]):
        size = found[r, 0]
        path[size - 1] = found[r, 1]
        at = begins[size]
        for k in range(size):
            codes[at] = path[size - 1 - k]
            at += sizes[size]
        begins[size] += 1
        counts[ends[size]] = found[r, 2]
        ends[size] += 1

"""Eclat: depth first over itemsets, each branch with the baskets of its extensions.

Items are codes 0, 1, ... by decreasing frequency. The branch of item i has the extensions j < i
that are frequent with it; an itemset grows from its rarest item. The baskets of an extension are a
bitset, a list of tids (transaction ids, where few are set), or a diffset (those of the branch that
lack it, where few do). Tids count the baskets of the branch, so bitsets are short.

`mine` can stop at any step and go on later: all its state is in arrays. They are
state    settings and position, by the names below
frames   one row per depth: FIRST, END of its extensions, AT the next of them, KIND, WIDTH in words
         of a bitset, the ends of what it uses of `words` and `lists`, and the bitset of the WHOLE
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

__all__ = ["mine", "transpose", "unfold"]

MIN_COUNT, MAX_SIZE, SPARSE, DENSE, NEXT, OPENED, DEPTH, FOUND = range(8)  # of state
FIRST, END, AT, KIND, WIDTH, WORDS_END, LISTS_END, WHOLE = range(8)  # of frames
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
def mine(state, starts, tids, rows, counters, places, frames, branches, words, lists, marks, out):
    """Write (size, item, count) of frequent itemsets to `out`, state[FOUND] of them, depth first.

    An itemset is its item and those of the last smaller sizes before it. counters, marks: 0;
    places: 8 * (j % 4) for j; the trailing entries of counters and places are for items n + 3 and
    whole lanes.
    """
    # What branches on arrays is here, not in helpers: Numba would count references at each call.
    state[FOUND] = 0
    status = RUNNING
    while status == RUNNING:
        depth = state[DEPTH]
        me, kind = frames[depth, AT], frames[depth, KIND]
        if depth == 0:
            status = _next_item(
                state, starts, tids, rows, counters, places, frames, branches, words, lists, out
            )
        elif me == frames[depth, END]:
            state[DEPTH] = depth - 1
        elif out.shape[0] - state[FOUND] < me - frames[depth, FIRST] + 1:
            status = OUT_FULL
        elif branches.shape[0] < frames[depth, END] + me - frames[depth, FIRST]:
            status = BRANCHES_FULL
        elif _prepare(depth, me, frames, branches) > words.size:
            status = WORDS_FULL
        elif _lists_end(depth, me, frames, branches) > lists.size:
            status = LISTS_FULL
        else:
            if depth + 1 < state[MAX_SIZE]:
                if kind == DIFFS:
                    _subtract(state[MIN_COUNT], depth, me, frames, branches, lists, marks)
                else:
                    if kind == TIDS:
                        _project(state[MIN_COUNT], depth, me, frames, branches, words, lists, marks)
                    else:
                        _intersect(state[MIN_COUNT], depth, me, frames, branches, words)
                    entries, lacking = _fill(depth + 1, branches[me, COUNT], frames, branches)
                    chosen = _choose(state, depth + 1, frames, entries, lacking)
                    if chosen != BITS:
                        size = entries if chosen == TIDS else lacking
                        if frames[depth, LISTS_END] + size > lists.size:
                            status = LISTS_FULL
                        else:
                            _list(depth + 1, chosen, frames, branches, words, lists)
            if status == RUNNING:
                _leave(state, depth, me, frames, branches, out)
    return status


@inline
def _write(state, out, size, item, count):
    found = state[FOUND]
    out[found, 0], out[found, 1], out[found, 2] = size, item, count
    state[FOUND] = found + 1


@inline
def _next_item(state, starts, tids, rows, counters, places, frames, branches, words, lists, out):
    """Write the next item, and enter its branch if there is something to extend it by."""
    i, status = state[NEXT], RUNNING
    if i == starts.size - 1:
        status = DONE
    elif branches.shape[0] < i:
        status = BRANCHES_FULL
    else:
        if state[OPENED] < 0:
            state[OPENED] = 0
            if state[MAX_SIZE] > 1:
                _count_pairs(state, i, starts, tids, rows, counters, branches)
        if out.shape[0] - state[FOUND] < state[OPENED] + 1:
            status = OUT_FULL
        elif state[OPENED] > 1 and state[MAX_SIZE] > 2:
            status = _open(state, i, starts, tids, rows, places, frames, branches, words, lists)
        if status == RUNNING:
            _enter(state, i, starts, branches, out)
    return status


@inline
def _enter(state, i, starts, branches, out):
    """Write an item; enter its branch, or write that too if it goes no deeper."""
    m, count = state[OPENED], starts[i + 1] - starts[i]
    deeper = m > 1 and state[MAX_SIZE] > 2
    _write(state, out, 1, i, count)
    if not deeper:
        for e in range(m):
            _write(state, out, 2, branches[e, ITEM], branches[e, COUNT])
    state[NEXT], state[OPENED], state[DEPTH] = i + 1, -1, np.int64(deeper)


@inline
def _count_pairs(state, i, starts, tids, rows, counters, branches):
    """One row of the triangle of pairs: the items frequent with i become its extensions.

    Rows have the items before i so far; now i is put at their end.
    """
    first, last = starts[i], starts[i + 1]
    for k in range(first, last):
        prefetch(rows, np.int64(tids[min(k + AHEAD, last - 1)]))
        row = np.int64(tids[k])
        for r in range(row + 1, row + 1 + np.int64(rows[row]), 4):
            counters[rows[r]] += 1
            counters[rows[r + 1]] += 1
            counters[rows[r + 2]] += 1
            counters[rows[r + 3]] += 1
        rows[row] += 1
        rows[row + np.int64(rows[row])] = i
    m = 0
    for j in range(0, i, 16):
        above = bits(load(counters, j) >= u32x16(state[MIN_COUNT]))
        while above:
            item = j + count_trailing_zeros(above)
            above &= above - ONE
            if item < i:
                branches[m, ITEM], branches[m, COUNT] = item, counters[item]
                m += 1
    for j in range(i):
        counters[j] = 0
    state[OPENED] = m


@inline
def _open(state, i, starts, tids, rows, places, frames, branches, words, lists):
    """The branch of an item: bitsets of its extensions, or lists where few bits would be set."""
    first, last, m, entries = starts[i], starts[i + 1], state[OPENED], 0
    for e in range(m):
        entries += branches[e, COUNT]
    width, spare = (last - first + 511) // 512 * 8, (starts[1] + 511) // 512 * 8 + SPARE
    sparse, status = entries * state[SPARSE] < m * width, RUNNING
    frames[1, FIRST], frames[1, END], frames[1, AT] = 0, m, 0
    frames[1, KIND], frames[1, WIDTH] = TIDS if sparse else BITS, width
    frames[1, WORDS_END] = 0 if sparse else spare + m * width
    frames[1, LISTS_END] = entries if sparse else 0
    if frames[1, LISTS_END] > lists.size:
        status = LISTS_FULL
    elif frames[1, WORDS_END] > words.size:
        status = WORDS_FULL
    elif sparse:
        _fill_lists(first, last, tids, rows, places, branches, lists, m)
    else:
        _fill_words(first, last, tids, rows, places, branches, words, spare, width, m)
    return status


@inline
def _fill_words(first, last, tids, rows, places, branches, words, spare, width, m):
    # Items that are no extension set bits in the spare words: a branch would be guessed wrong half
    # of the time. They have several places there, so that one write need not wait for another.
    for w in range(spare, spare + m * width):
        words[w] = 0
    for e in range(m):
        branches[e, START], branches[e, LENGTH] = spare + e * width, 0
        places[branches[e, ITEM]] = branches[e, START]
    for k in range(first, last):
        prefetch(rows, np.int64(tids[min(k + AHEAD, last - 1)]))
        row, tid = np.int64(tids[k]), k - first
        word, bit = tid >> 6, ONE << np.uint64(tid & 63)
        for r in range(row + 1, row + 1 + np.int64(rows[row]), 4):
            words[places[rows[r]] + word] |= bit
            words[places[rows[r + 1]] + word] |= bit
            words[places[rows[r + 2]] + word] |= bit
            words[places[rows[r + 3]] + word] |= bit
    for e in range(m):
        places[branches[e, ITEM]] = 8 * (branches[e, ITEM] & 3)


@inline
def _fill_lists(first, last, tids, rows, places, branches, lists, m):
    end = 0
    for e in range(m):
        branches[e, START], branches[e, LENGTH] = end, 0
        places[branches[e, ITEM]] = -1 - e
        end += branches[e, COUNT]
    for k in range(first, last):
        row = np.int64(tids[k])
        for r in range(row + 1, row + 1 + np.int64(rows[row])):
            e = -1 - places[rows[r]]
            if e >= 0:
                lists[branches[e, START] + branches[e, LENGTH]] = k - first
                branches[e, LENGTH] += 1
    for e in range(m):
        places[branches[e, ITEM]] = 8 * (branches[e, ITEM] & 3)


@inline
def _leave(state, depth, me, frames, branches, out):
    """Write an extension; enter its branch, or write that too if it goes no deeper."""
    _write(state, out, depth + 1, branches[me, ITEM], branches[me, COUNT])
    frames[depth, AT] = me + 1
    first, last = frames[depth, END], frames[depth + 1, END]
    if last - first > 1 and depth + 2 < state[MAX_SIZE]:
        state[DEPTH] = depth + 1
    else:
        for e in range(first, last):
            _write(state, out, depth + 2, branches[e, ITEM], branches[e, COUNT])


@inline
def _prepare(depth, me, frames, branches):
    """Start the branch of an extension, empty so far; returns the words that it may need."""
    kind, count = frames[depth, KIND], branches[me, COUNT]
    width = (count + 511) // 512 * 8 if kind == TIDS else frames[depth, WIDTH]
    for field in range(WORDS_END):
        frames[depth + 1, field] = frames[depth, END]
    frames[depth + 1, KIND], frames[depth + 1, WIDTH] = DIFFS if kind == DIFFS else BITS, width
    frames[depth + 1, WORDS_END] = frames[depth, WORDS_END]
    frames[depth + 1, LISTS_END] = frames[depth, LISTS_END]
    return frames[depth, WORDS_END] + (me - frames[depth, FIRST] + 2) * width


@inline
def _lists_end(depth, me, frames, branches):
    """The end of the lists that the branch of an extension may need."""
    end = frames[depth, LISTS_END]
    for e in range(frames[depth, FIRST], me):
        end += branches[e, LENGTH]
    return end


@inline
def _put(branches, at, item, count, start, length):
    branches[at, ITEM], branches[at, COUNT] = item, count
    branches[at, START], branches[at, LENGTH] = start, length


@inline
def _both(words, first, second, width, out):
    """words[out...] = the baskets in both bitsets; returns how many."""
    counts = u64x8(0)
    for w in range(0, width, 8):
        both = load(words, first + w) & load(words, second + w)
        store(words, out + w, both)
        counts = counts + popcount(both)
    return np.int64(total(counts))


@inline
def _intersect(min_count, depth, me, frames, branches, words):
    """Bitsets of (me, e), for the extensions e before `me`."""
    width, mine = frames[depth, WIDTH], branches[me, START]
    at, end = frames[depth, END], frames[depth, WORDS_END]
    for e in range(frames[depth, FIRST], me):
        count = _both(words, mine, branches[e, START], width, end)
        if count >= min_count:
            _put(branches, at, branches[e, ITEM], count, end, 0)
            at += 1
            end += width
    frames[depth + 1, END], frames[depth + 1, WORDS_END] = at, end
    frames[depth + 1, WHOLE] = mine


@inline
def _project(min_count, depth, me, frames, branches, words, lists, marks):
    """Bitsets of (me, e) over the tids of `me`, and before them the one of all these."""
    width, whole, size = frames[depth + 1, WIDTH], frames[depth, WORDS_END], branches[me, COUNT]
    for w in range(whole, whole + width):
        words[w] = 0
    for k in range(size):
        marks[lists[branches[me, START] + k]] = k + 1
        words[whole + (k >> 6)] |= ONE << np.uint64(k & 63)
    at, end = frames[depth, END], whole + width
    for e in range(frames[depth, FIRST], me):
        count = 0
        for w in range(end, end + width):
            words[w] = 0
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
    frames[depth + 1, WHOLE] = whole


@inline
def _subtract(min_count, depth, me, frames, branches, lists, marks):
    """Diffset of (me, e) = the baskets that lack e and not me."""
    at, start = frames[depth, END], frames[depth, LISTS_END]
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


@inline
def _fill(depth, count, frames, branches):
    """How many tids the extensions of a branch have together, and how many they lack."""
    entries = 0
    for e in range(frames[depth, FIRST], frames[depth, END]):
        entries += branches[e, COUNT]
    return entries, (frames[depth, END] - frames[depth, FIRST]) * count - entries


@inline
def _choose(state, depth, frames, entries, lacking):
    """The kind of a branch: lists where they are much shorter than bitsets."""
    m = frames[depth, END] - frames[depth, FIRST]
    sparse = entries * state[SPARSE] < m * frames[depth, WIDTH]
    dense = lacking * state[DENSE] < m * frames[depth, WIDTH]
    chosen = DIFFS if dense and not (sparse and entries <= lacking) else TIDS
    return chosen if m > 1 and (sparse or dense) else BITS


@inline
def _list(depth, kind, frames, branches, words, lists):
    """Replace the bitsets of a branch by lists of tids, or of those that they lack."""
    end, whole = frames[depth, LISTS_END], frames[depth, WHOLE]
    flip = np.uint64(0) if kind == TIDS else ~np.uint64(0)
    for e in range(frames[depth, FIRST], frames[depth, END]):
        start, bitset = end, branches[e, START]
        for w in range(frames[depth, WIDTH]):
            word = (words[bitset + w] ^ flip) & words[whole + w]
            while word:
                lists[end] = 64 * w + count_trailing_zeros(word)
                word &= word - ONE
                end += 1
        branches[e, START], branches[e, LENGTH] = start, end - start
    frames[depth, KIND], frames[depth, LISTS_END] = kind, end


@kernel
def unfold(found, path, begins, ends, codes, counts):
    """Write the itemsets of size k as rows of codes, the most frequent item first.

    codes[begins[k]...] is the next row, counts[ends[k]] its count. path: the items of the last
    itemset, in and out, as `found` comes in parts.
    """
    for r in range(found.shape[0]):
        size = found[r, 0]
        path[size - 1] = found[r, 1]
        at = begins[size]
        for k in range(size):
            codes[at + k] = path[size - 1 - k]
        begins[size] = at + size
        counts[ends[size]] = found[r, 2]
        ends[size] += 1

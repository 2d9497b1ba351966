"""Edit distances of texts as code points, and the segment keys that find all near pairs.

Myers (1999) computes a column of the dynamic program in a few word operations; texts longer than 64
take a word per 64 characters, with carries (Hyyro 2003).

If at most d edits turn s into t, then of d + 1 segments of the shorter one at least one is in the
longer one unchanged, at most d places to the side (Li, Deng, Wang and Feng 2011). Segments and
substrings with equal keys therefore find every pair.
"""

import numpy as np

from sfumato.kernels.hash import mix
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import population_count

__all__ = ["distances", "letters", "segment_keys", "segment_matches", "substring_keys"]

ONE, TOP = np.uint64(1), np.uint64(63)
FULL = np.uint64(2**64 - 1)
STEP = np.uint64(0x9E3779B97F4A7C15)


@inline
def _slot(point, points):
    """The slot of a code point in an open table of 2**j, or the free one (0) where it would be."""
    mask = np.uint64(points.size - 1)
    at = mix(np.uint64(point)) & mask
    while points[at] != np.uint32(0) and points[at] != np.uint32(point) + np.uint32(1):
        at = (at + ONE) & mask
    return at


@inline
def _index(pattern, points, masks):
    """masks[slot, w] = bits of the characters of word w of the pattern that the slot stands for."""
    points[:] = 0
    for i in range(pattern.size):
        at = _slot(pattern[i], points)
        if points[at] == np.uint32(0):
            points[at] = pattern[i] + np.uint32(1)
            masks[at, :] = 0
        masks[at, i >> 6] |= ONE << np.uint64(i & 63)


@inline
def _advance(positive, negative, equal, carry_in, last):
    """One word of a column: new vertical differences and the carry (-1, 0, 1) at bit `last`."""
    vertical = equal | negative
    equal |= np.uint64(carry_in < 0)
    horizontal = (((equal & positive) + positive) ^ positive) | equal
    up = negative | ~(horizontal | positive)
    down = positive & horizontal
    carry = np.int64(up >> last & ONE) - np.int64(down >> last & ONE)
    up = up << ONE | np.uint64(carry_in > 0)
    down = down << ONE | np.uint64(carry_in < 0)
    return down | ~(vertical | up), up & vertical, carry


@inline
def _distance(pattern, text, most, points, masks, positive, negative):
    """Edit distance, or any number above `most` where it is larger."""
    words = (pattern.size + 63) >> 6
    if words == 0:
        return text.size
    _index(pattern, points, masks)
    positive[:words], negative[:words] = FULL, np.uint64(0)
    last, score = np.uint64((pattern.size - 1) & 63), pattern.size
    for j in range(text.size):
        carry = np.int64(1)  # the first row of the table rises by one with each character
        at = _slot(text[j], points)
        known = points[at] != np.uint32(0)
        for w in range(words):
            end = last if w == words - 1 else TOP
            equal = masks[at, w] if known else np.uint64(0)
            positive[w], negative[w], carry = _advance(positive[w], negative[w], equal, carry, end)
        score += carry
        if score - (text.size - 1 - j) > most:
            return most + 1
    return score


@kernel
def distances(points, bounds, first, second, most, out):
    """out[p] = edit distance of texts first[p] and second[p], or above `most` if it is larger."""
    longest = 0
    for p in range(out.size):
        a, b = first[p], second[p]
        longest = max(longest, min(bounds[a + 1] - bounds[a], bounds[b + 1] - bounds[b]))
    words, slots = (longest + 63) >> 6, 2
    while slots < 2 * longest:
        slots *= 2
    table, masks = np.empty(slots, np.uint32), np.empty((slots, words), np.uint64)
    positive, negative = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for p in range(out.size):
        a = points[bounds[first[p]] : bounds[first[p] + 1]]
        b = points[bounds[second[p]] : bounds[second[p] + 1]]
        if a.size > b.size:
            a, b = b, a
        size = 2
        while size < 2 * a.size:
            size *= 2
        if b.size - a.size > most:
            out[p] = most + 1
        else:
            out[p] = _distance(a, b, most, table[:size], masks[:size], positive, negative)


@inline
def _key(points, start, end, size, segment):
    """Key of a substring as segment number `segment` of a text of `size` characters."""
    h = mix(np.uint64(size) * STEP + np.uint64(segment))
    for i in range(start, end):
        h = mix(h ^ np.uint64(points[i]) + STEP)
    return h


@inline
def _segment(size, segment, segments):
    """Where a segment starts; the longer ones are at the end."""
    length, longer = size // segments, size % segments
    return segment * length + max(segment - (segments - longer), 0)


@kernel
def segment_keys(points, bounds, segments, out):
    """out[i, s] = the key of segment s of text i."""
    for i in range(out.shape[0]):
        start, size = bounds[i], bounds[i + 1] - bounds[i]
        for s in range(segments):
            a, b = _segment(size, s, segments), _segment(size, s + 1, segments)
            out[i, s] = _key(points, start + a, start + b, size, s)


@kernel
def substring_keys(points, bounds, rows, segments, out, ends):
    """Keys under which shorter or equal texts may hold a segment of each row; gives their number.

    Of segment s, only substrings that leave at most d edits before and behind it are made.
    Without room in `out`, nothing is written, only counted; ends[i + 1] of rows[i].
    """
    edits, at = segments - 1, 0
    ends[0] = 0
    for r in range(rows.size):
        start, size = bounds[rows[r]], bounds[rows[r] + 1] - bounds[rows[r]]
        for other in range(max(size - edits, 0), size + 1):
            for s in range(segments):
                a, b = _segment(other, s, segments), _segment(other, s + 1, segments)
                # Edits before the segment and behind it are together at most `edits`.
                low = max(0, a - (edits - (size - other)) // 2)
                high = min(size - (b - a), a + (edits + size - other) // 2)
                for c in range(low, high + 1):
                    if at < out.size:
                        out[at] = _key(points, start + c, start + c + b - a, other, s)
                    at += 1
        ends[r + 1] = at
    return at


@inline
def _first(keys, key):
    """The first position of sorted keys that is not below the key."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def letters(points, bounds, out):
    """out[i] = bits of the characters of text i, modulo 32: once at least, and twice at least."""
    for i in range(out.size):
        once, twice = np.uint64(0), np.uint64(0)
        for j in range(bounds[i], bounds[i + 1]):
            bit = ONE << np.uint64(points[j] & np.uint32(31))
            twice |= once & bit
            once |= bit
        out[i] = once | twice << np.uint64(32)


@inline
def _too_far(left, right, edits):
    """Whether bits of `letters` differ by more than so many edits: each adds and clears one."""
    added, cleared = population_count(right & ~left), population_count(left & ~right)
    return max(added, cleared) > edits


@kernel
def segment_matches(sorted_keys, owners, keys, ends, rows, bounds, marks, edits, first, second):
    """Pairs of a row and an owner of an equal key; gives how many there are.

    Of two texts of one length only the earlier row is an owner. Pairs whose `letters`, marks, are
    more than so many edits apart are left out. Past the end of `first`, pairs are only counted.
    """
    stamps = np.full(bounds.size - 1, -1)  # the last row that met each text
    count = 0
    for r in range(rows.size):
        i = rows[r]
        size = bounds[i + 1] - bounds[i]
        for at in range(ends[r], ends[r + 1]):
            position = _first(sorted_keys, keys[at])
            while position < sorted_keys.size and sorted_keys[position] == keys[at]:
                j = owners[position]
                position += 1
                if stamps[j] == i or _too_far(marks[i], marks[j], edits):
                    continue
                stamps[j] = i
                if bounds[j + 1] - bounds[j] < size or j < i:
                    if count < first.size:
                        first[count], second[count] = min(i, j), max(i, j)
                    count += 1
    return count

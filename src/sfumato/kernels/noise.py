"""Random words become noise through tables of integers; what stays open is listed.

Sums of a given number of draws each, and sizes out of strips whose width grows with them.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["add_digits", "add_runs", "add_signed", "add_sizes", "add_strips", "draw_sizes", "flip"]

ONE = np.uint64(1)


@inline
def outcome(u, floors, guide, shift):
    """The first k with u <= floors[k]; `guide` holds it for the first number of each stretch."""
    k = np.int64(guide[u >> shift])
    while u > floors[k]:
        k += 1
    return k


@kernel
def add_sizes(words, floors, guide, shift, left_open, cells):
    """cells[i] += plus or minus an outcome; lists the i left open and returns how many.

    The lowest bit of a word is the sign, the other 63 choose the outcome. A word on a floor itself
    leaves it open.
    """
    shift, missing = np.uint64(shift), 0
    for i in range(words.size):
        u = words[i] >> ONE
        k = outcome(u, floors, guide, shift)
        minus = -np.int64(words[i] & ONE)
        if u == floors[k]:
            left_open[missing] = i
            missing += 1
            k = 0
        cells[i] += (k ^ minus) - minus
    return missing


@kernel
def add_digits(words, floors, guide, shift, position, left_open, digits):
    """digits[i] += outcome << position; lists the open ones and returns how many."""
    shift, missing = np.uint64(shift), 0
    for i in range(words.size):
        u = words[i] >> ONE
        k = outcome(u, floors, guide, shift)
        if u == floors[k]:
            left_open[missing] = i
            missing += 1
            k = 0
        digits[i] += k << position
    return missing


@kernel
def add_signed(digits, cells):
    """cells[i] += n, or -1 - n if the lowest bit is set, where n is digits[i] without that bit."""
    for i in range(digits.size):
        cells[i] += (digits[i] >> 1) ^ -(digits[i] & 1)


@inline
def surely_above(least, loss):
    """Whether a number of at least `least` is above exp(-g), for g >= loss, in units of 2**-64.

    exp(-g) <= 1 - loss + loss**2 / 2, of which the square is rounded up.
    """
    half = (loss >> np.uint64(32)) + ONE
    gain = (half * half >> ONE) + ONE
    return loss > gain and ~least < loss - gain


@kernel
def add_strips(words, floors, guide, shift, position, slopes, left_open, rejected, cells):
    """cells[i] += a point of a strip that is surely kept; lists those left open and those rejected.

    Of the two words of a point, the first gives its sign and strip k; the lowest `position` bits r
    of the second give where in the strip, its other bits whether it is kept, whatever the bits of
    r are: with a probability exp(-g) for g from r slopes[2] k to r (slopes[0] + slopes[1] k), in
    units of 2**-64 and below 1. Returns how many are open and how many rejected.
    """
    shift, missing, last = np.uint64(shift), 0, 0
    inside = (ONE << np.uint64(position)) - ONE
    for i in range(cells.size):
        first, second = words[2 * i], words[2 * i + 1]
        u = first >> ONE
        k = outcome(u, floors, guide, shift)
        minus = -np.int64(first & ONE)
        r = second & inside
        n = (k << position) + np.int64(r)
        most = r * (slopes[0] + slopes[1] * np.uint64(k))
        if u == floors[k]:
            left_open[missing] = i
            missing += 1
        elif (n == 0 and minus) or surely_above(second & ~inside, r * slopes[2] * np.uint64(k)):
            rejected[last] = i
            last += 1
        elif second | inside > ~most:
            left_open[missing] = i
            missing += 1
        else:
            cells[i] += (n ^ minus) - minus
    return missing, last


@kernel
def flip(words, digits, start, left_open, out):
    """out[j] ^= 64 coins for j from start, while words last; returns the first j not done.

    digits: all ones or all zeros for each binary digit of the probability. A coin is 1 where its
    first random bit that differs from the digit is 0; those equal in all digits stay 0 and are set
    in left_open[j].
    """
    at, j = 0, start
    while j < out.size and words.size - at >= digits.size:
        pending, ones, d = ~np.uint64(0), np.uint64(0), 0
        while pending != 0 and d < digits.size:
            word = words[at]
            ones |= pending & digits[d] & ~word
            pending &= ~(digits[d] ^ word)
            at += 1
            d += 1
        left_open[j] = pending
        out[j] ^= ones
        j += 1
    return j


@kernel
def draw_sizes(words, floors, guide, shift, leading, slopes, left_open, sizes):
    """sizes[i] = plus or minus a number that is surely kept; lists the others, returns how many.

    Of the two words of a number, the first gives its sign and strip; of the second, the lowest
    bits r tell where in the strip, all of them whether it is kept: surely if not among the top
    r slopes[strip] of 2**64, whatever the bits of r are.
    """
    shift, missing = np.uint64(shift), 0
    base = np.int64(1) << leading
    for i in range(sizes.size):
        first, second = words[2 * i], words[2 * i + 1]
        u = first >> ONE
        k = outcome(u, floors, guide, shift)
        code = k + 1
        position = max((code >> leading) - 1, 0)
        lead = code if code < base else (code & (base - 1)) + base
        inside = (ONE << np.uint64(position)) - ONE
        r = second & inside
        minus = -np.int64(first & ONE)
        n = (lead << position) + np.int64(r)
        if u == floors[k] or second | inside > ~(r * slopes[k]):
            left_open[missing] = i
            missing += 1
            n = 0
        sizes[i] = (n ^ minus) - minus
    return missing


@kernel
def add_runs(lengths, numbers, cells):
    """cells[i] += the sum of the next lengths[i] numbers."""
    at = 0
    for i in range(cells.size):
        for _ in range(lengths[i]):
            cells[i] += numbers[at]
            at += 1

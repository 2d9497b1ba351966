"""Sums of so many numbers each, and sizes out of strips whose width grows with them."""

import numpy as np

from ._jit import kernel
from .noise import ONE, outcome

__all__ = ["add_runs", "draw_sizes"]


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
        place = max((code >> leading) - 1, 0)
        lead = code if code < base else (code & (base - 1)) + base
        inside = (ONE << np.uint64(place)) - ONE
        r = second & inside
        minus = -np.int64(first & ONE)
        n = (lead << place) + np.int64(r)
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

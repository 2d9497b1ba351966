"""The best of given codes by factor * (sum of weights, each + where its bit is set and else -).

A score is summed in one order, whatever else is asked with it.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import f32x16, flip, load, prefetch, total
from .largest import offer, order
from .scan import BLOCK

__all__ = ["best"]

AHEAD = 16  # codes that are asked for before their turn


@inline
def _sum(blocks, block, place, weights):
    """The weighted bits of one code; weights fill its words."""
    even = odd = f32x16(0.0)  # two sums side by side hide the latency of adding
    for w in range(blocks.shape[1]):
        clear = ~blocks[block, w, place]
        even += flip(load(weights, 64 * w), clear)
        odd += flip(load(weights, 64 * w + 16), clear >> np.uint64(16))
        even += flip(load(weights, 64 * w + 32), clear >> np.uint64(32))
        odd += flip(load(weights, 64 * w + 48), clear >> np.uint64(48))
    return total(even + odd)


@inline
def _ask(blocks, row):
    words = blocks.shape[1]
    at = (row // BLOCK) * words * BLOCK + row % BLOCK
    for w in range(words):
        prefetch(blocks, at + w * BLOCK)


@kernel
def best(blocks, factors, weights, starts, rows, places, scores):
    """scores[q], places[q] = the largest factors[r] * weighted bits of code r, largest first.

    r runs over rows[starts[q] : starts[q + 1]], which ascend; its word w is blocks[r // BLOCK, w,
    r % BLOCK]. No factors at all stand for factors of 1. Lists begin as -1 and -inf, and equal
    scores go to the row that is given first.
    """
    filled = np.zeros(64 * blocks.shape[1], np.float32)
    for q in range(weights.shape[0]):
        filled[: weights.shape[1]] = weights[q]
        end = starts[q + 1]
        for i in range(starts[q], end):
            if i + AHEAD < end:
                _ask(blocks, rows[i + AHEAD])
            row = rows[i]
            score = _sum(blocks, row // BLOCK, row % BLOCK, filled)
            if factors.size:
                score *= factors[row]
            offer(row, score, places[q], scores[q])
        order(places[q], scores[q])

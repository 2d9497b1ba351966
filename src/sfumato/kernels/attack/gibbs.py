"""Steps over profiles coded as slots, each empty or one candidate: one loop for all mechanisms.

A mechanism brings its arrays in a tuple `state` and three inlined pieces: `change(state, j, sign,
live, weight)` adds (+1) or removes (-1) candidate j and mends what depends on it; `weigh(state,
live, weight)` leaves weight[i] = live[i] exp(gain of i - shift) and returns the shift, at least 0;
`gain(state, j)` is log P(release | with j) / P(release | without j) for a j that is not in the
profile. live[i] is the prior odds of a candidate outside the profile and 0 inside.
"""

import math

import numpy as np

from sfumato.kernels.hash import mix, row_slot
from sfumato.kernels.jit import inline
from sfumato.kernels.lanes import f64x8, load, total

__all__ = ["BLOCK", "climb", "walk"]

BLOCK = 64  # candidates of one partial sum; their arrays are padded to a multiple of it
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
UNIT = 2.0**-53


@inline
def _fraction(word):
    """A number in [0, 1) from the high bits of a word."""
    return np.float64(word >> np.uint64(11)) * UNIT


@inline
def _sums(weight, partial):
    """partial[b] = sum of block b of the weights; returns the sum of all."""
    whole = 0.0
    for b in range(partial.size):
        lanes = f64x8(0.0)
        for k in range(BLOCK * b, BLOCK * b + BLOCK, 8):
            lanes += load(weight, k)
        partial[b] = total(lanes)
        whole += partial[b]
    return whole


@inline
def _find(weight, partial, rest):
    """The candidate at which the running sum of weights passes `rest`."""
    b = 0
    while b < partial.size - 1 and rest >= partial[b]:
        rest -= partial[b]
        b += 1
    found = -1
    for k in range(BLOCK * b, BLOCK * b + BLOCK):
        if weight[k] > 0.0:
            found = k  # the last one stands in where rounding lets the sum fall short
            rest -= weight[k]
            if rest < 0.0:
                break
    return found


@inline
def walk(change, weigh, state, odds, live, weight, slots, clock, key, steps, entered, counts):
    """Take Gibbs steps (thesis, equation 3.35); counts[j] += the steps after which j is a member.

    A step empties a random slot and fills it by the weights. A set of s items has m! / (m - s)!
    codings in m slots; so the empty item weighs as many as would be left empty, and sets then
    follow the requested prior. clock holds the time and the items in the profile.
    """
    many, inside = np.uint64(slots.size), clock[1]
    partial = np.empty(weight.size // BLOCK)
    for now in range(clock[0], clock[0] + steps):
        slot = row_slot(mix(key + np.uint64(2 * now) * GOLDEN), many)
        old = slots[slot]
        if old >= 0:
            live[old] = odds[old]
            change(state, old, -1, live, weight)
            counts[old] += now - entered[old]
            inside -= 1
        shift = weigh(state, live, weight)
        empty = (slots.size - inside) * math.exp(-shift)
        drawn = _fraction(mix(key + np.uint64(2 * now + 1) * GOLDEN))
        rest = drawn * (empty + _sums(weight, partial)) - empty
        new = _find(weight, partial, rest) if rest >= 0.0 else -1
        slots[slot] = new
        if new >= 0:
            live[new] = 0.0
            change(state, new, 1, live, weight)
            entered[new] = now
            inside += 1
    clock[0] += steps
    clock[1] = inside
    for slot in range(slots.size):
        old = slots[slot]
        if old >= 0:
            counts[old] += clock[0] - entered[old]
            entered[old] = clock[0]


@inline
def climb(change, gain, state, log_odds, live, weight, sweeps, out):
    """Add or remove one candidate after another while the posterior rises; out[j] = log odds.

    out[j] is the posterior log odds of candidate j given the others as they stand at the end.
    """
    for sweep in range(sweeps + 1):
        moved, last = False, sweep == sweeps
        for j in range(out.size):
            inside = live[j] == 0.0
            if inside:
                live[j] = 1.0
                change(state, j, -1, live, weight)
            out[j] = log_odds[j] + gain(state, j)
            stays = inside if last else out[j] > 0.0
            if stays:
                live[j] = 0.0
                change(state, j, 1, live, weight)
            moved |= stays != inside
        if not moved:
            break

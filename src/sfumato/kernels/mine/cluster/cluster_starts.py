"""First centres of k-means: by squared distance (k-means++), or the furthest point each time.

columns[j, i] is column j of point i. The number of points is a multiple of LANES; those that only
fill the end have weight 0, and are never chosen unless all weights are 0.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import fma, load, minimum, store, total

__all__ = ["LANES", "furthest_first", "plus_plus"]

LANES = 16


@inline
def _squared(columns, chosen, i, zero):
    """Squared distances of the lanes from point i on to a chosen point."""
    size = columns.shape[1]
    found = zero
    for j in range(columns.shape[0]):
        apart = load(columns, j * size + i) - (zero + columns[j, chosen])
        found = fma(apart, apart, found)
    return found


@inline
def _approach(columns, chosen, zero, lanes, closest):
    """closest[i]: the smaller of what it is and the squared distance to the chosen point."""
    for i in range(0, columns.shape[1], lanes):
        store(closest, i, minimum(_squared(columns, chosen, i, zero), load(closest, i)))


@inline
def _potential(columns, weights, chosen, zero, lanes, closest):
    """Weighted sum of what `closest` would be with another chosen point."""
    sums = zero
    for i in range(0, columns.shape[1], lanes):
        nearer = minimum(_squared(columns, chosen, i, zero), load(closest, i))
        sums = fma(load(weights, i), nearer, sums)
    return total(sums)


@inline
def _drawn(weights, closest, draw):
    """The point at the fraction `draw` of the weighted sum of `closest`."""
    mass = 0.0
    for i in range(weights.size):
        mass += weights[i] * closest[i]
    target, passed, last = draw * mass, 0.0, 0
    for i in range(weights.size):
        part = weights[i] * closest[i]
        if part > 0:
            passed += part
            last = i
            if passed > target:
                return i
    return last


@kernel
def plus_plus(columns, weights, draws, closest, chosen):
    """Choose centres with probability proportional to weight times squared distance.

    draws[c]: uniform numbers for centre c, one per trial; the trial with the smallest sum of
    distances wins. closest: scratch, one per point, filled with the distance that all share first.
    """
    lanes = 64 // columns.itemsize
    zero = load(np.zeros(LANES, columns.dtype), 0)
    chosen[0] = _drawn(weights, closest, draws[0, 0])
    for i in range(closest.size):
        closest[i] = np.inf
    _approach(columns, chosen[0], zero, lanes, closest)
    for c in range(1, chosen.size):
        best, least = 0, np.inf
        for t in range(draws.shape[1]):
            trial = _drawn(weights, closest, draws[c, t])
            found = _potential(columns, weights, trial, zero, lanes, closest)
            if found < least or t == 0:
                best, least = trial, found
        chosen[c] = best
        _approach(columns, best, zero, lanes, closest)


@kernel
def furthest_first(columns, weights, closest, chosen):
    """From a first centre on, choose the point that is furthest from all centres so far."""
    lanes = 64 // columns.itemsize
    zero = load(np.zeros(LANES, columns.dtype), 0)
    for i in range(closest.size):
        closest[i] = np.inf
    for c in range(1, chosen.size):
        _approach(columns, chosen[c - 1], zero, lanes, closest)
        best, most = chosen[0], -1.0
        for i in range(closest.size):
            if weights[i] > 0 and closest[i] > most:
                best, most = i, closest[i]
        chosen[c] = best

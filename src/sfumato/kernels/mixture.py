"""Mixtures over reports: how likely each value makes each report, streamed in blocks of reports.

A report of cohort j is base[j, v] ratio**ones likely under value v, where ones is how many cells of
the value's own set it marks, and levels[marks] under a value whose set is random. Rows are sorted
by cohort; rows starts[j] to starts[j + 1] are of cohort j. places[j, v] are the rows of the table
of factors that a value multiplies: the place of a cell in cells[j], or 0, which holds ones.
"""

import numpy as np

from . import lanes
from ._jit import inline, kernel

__all__ = ["BLOCK", "deviations", "expectations", "locate", "marks"]

BLOCK = 64  # reports side by side: the factors of 50 cells then stay in the first cache
LANES = 8


@kernel
def marks(payload, out):
    """out[n] = how many bits of row n are set."""
    for n in range(payload.shape[0]):
        ones = np.int64(0)
        for b in range(payload.shape[1]):
            ones += lanes.population_count(np.uint64(payload[n, b]))
        out[n] = ones


@kernel
def locate(members, seen, cells, out):
    """cells[j, 1:] lists the cells that cohort j's sets use, and out[j, v] says where; -1 is 0.

    members is (m, M, s); seen is scratch, one place a cell, all zero, and is left so.
    """
    for j in range(members.shape[0]):
        used = 0
        for v in range(members.shape[1]):
            for c in range(members.shape[2]):
                cell = members[j, v, c]
                out[j, v, c] = 0
                if cell >= 0:
                    if seen[cell] == 0:
                        used += 1
                        seen[cell] = used
                        cells[j, used] = cell
                    out[j, v, c] = seen[cell]
        cells[j, 0] = used
        for c in range(1, used + 1):
            seen[cells[j, c]] = 0


@inline
def _multiply_out(payload, first, rows, cells, ratio, factors):
    """factors[c BLOCK + b] = ratio if report first + b marks cell cells[c], else 1."""
    for c in range(1, cells[0] + 1):
        byte, shift = cells[c] >> 3, np.uint8(cells[c] & 7)
        for b in range(rows):
            marked = (payload[first + b, byte] >> shift) & np.uint8(1)
            factors[c * BLOCK + b] = ratio if marked else 1.0


@inline
def _lanes_of(factors, places, b):
    """The product of a value's factors for reports b to b + 7 of the block."""
    product = lanes.load(factors, places[0] * BLOCK + b)
    for c in range(1, places.size):
        product = product * lanes.load(factors, places[c] * BLOCK + b)
    return product


@inline
def _mix(factors, places, base, shares, chance):
    """chance[b] += sum over v of shares[v] base[v] times the product of v's factors."""
    for v in range(base.size):
        if shares[v] > 0:
            weight = shares[v] * base[v]
            for b in range(0, BLOCK, LANES):
                mixed = lanes.load(chance, b) + _lanes_of(factors, places[v], b) * weight
                lanes.store(chance, b, mixed)


@inline
def _collect(factors, places, base, pull, gradient):
    """gradient[v] += base[v] sum over b of pull[b] times the product of v's factors."""
    for v in range(base.size):
        total = lanes.f64x8(0.0)
        for b in range(0, BLOCK, LANES):
            total = total + _lanes_of(factors, places[v], b) * lanes.load(pull, b)
        gradient[v] += base[v] * lanes.total(total)


@kernel
def expectations(
    payload, starts, cells, places, base, ratio, flat, weights, shares, chances, gradient
):
    """chances = sum over v of shares_v L_v; gradient_v += sum over n of weights_n L_v / chances_n.

    flat[n] is the likelihood of report n under a random set, the last of shares and gradient.
    """
    values = base.shape[1]
    factors = np.ones(cells.shape[1] * BLOCK)
    chance, pull = np.empty(BLOCK), np.empty(BLOCK)
    for j in range(starts.size - 1):
        for first in range(starts[j], starts[j + 1], BLOCK):
            rows = min(BLOCK, starts[j + 1] - first)
            _multiply_out(payload, first, rows, cells[j], ratio, factors)
            chance[:] = 0.0
            _mix(factors, places[j], base[j], shares, chance)
            pull[:] = 0.0
            for b in range(rows):
                n = first + b
                chances[n] = chance[b] + shares[values] * flat[n]
                pull[b] = weights[n] / chances[n]
                gradient[values] += pull[b] * flat[n]
            _collect(factors, places[j], base[j], pull, gradient)


@kernel
def deviations(payload, starts, cells, places, base, ratio, flat, weights, chances, out):
    """out[v, n] = sqrt(weights_n) (L_v(n) / chances_n - 1), the last row that of a random set."""
    values = base.shape[1]
    factors = np.ones(cells.shape[1] * BLOCK)
    scale, root, line = np.zeros(BLOCK), np.zeros(BLOCK), np.empty(BLOCK, np.float32)
    for j in range(starts.size - 1):
        for first in range(starts[j], starts[j + 1], BLOCK):
            rows = min(BLOCK, starts[j + 1] - first)
            _multiply_out(payload, first, rows, cells[j], ratio, factors)
            for b in range(rows):
                root[b] = np.sqrt(weights[first + b])
                scale[b] = root[b] / chances[first + b]
                out[values, first + b] = flat[first + b] * scale[b] - root[b]
            for v in range(values):
                _deviate(factors, places[j, v], base[j, v], scale, root, line)
                out[v, first : first + rows] = line[:rows]


@inline
def _deviate(factors, places, base, scale, root, line):
    """line[b] = base scale[b] times the product of a value's factors, - root[b]."""
    for b in range(0, BLOCK, 2 * LANES):
        low = _lanes_of(factors, places, b) * lanes.load(scale, b) * base
        high = _lanes_of(factors, places, b + LANES) * lanes.load(scale, b + LANES) * base
        low, high = low - lanes.load(root, b), high - lanes.load(root, b + LANES)
        lanes.store(line, b, lanes.narrow(low, high))

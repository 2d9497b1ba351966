"""Mixtures over reports: how likely each value makes each report, streamed in blocks of reports.

A report of cohort j is base[j, v] ratio**ones likely under value v, where ones is how many cells of
the value's own set it marks, and levels[marks] under a value whose set is random. Rows are sorted
by cohort; rows starts[j] to starts[j + 1] are of cohort j. positions[j, v] are the rows of the
table of factors that a value multiplies: the position of a cell in cells[j], or 0, which holds
ones.

How likely each candidate makes each report, a row a report: what pairs of reports are made of.
Coordinate descent on sparse 0/1 designs: penalised least squares with weights from 0 up.
"""

import numpy as np

from sfumato.kernels import lanes
from sfumato.kernels.jit import inline, kernel

__all__ = [
    "BLOCK",
    "deviations",
    "expectations",
    "locate",
    "marks",
    "nonnegative_lasso",
    "of_bits",
    "of_symbols",
    "weighted_marks",
]

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
def locate(members, numbers, cells, out):
    """cells[j, 1:] lists the cells that cohort j's sets use, and out[j, v] says where; -1 is 0.

    members is (m, M, s); numbers is scratch, one entry per cell, zero before and after.
    """
    for j in range(members.shape[0]):
        used = 0
        for v in range(members.shape[1]):
            for c in range(members.shape[2]):
                cell = members[j, v, c]
                out[j, v, c] = 0
                if cell >= 0:
                    if numbers[cell] == 0:
                        used += 1
                        numbers[cell] = used
                        cells[j, used] = cell
                    out[j, v, c] = numbers[cell]
        cells[j, 0] = used
        for c in range(1, used + 1):
            numbers[cells[j, c]] = 0


@inline
def _multiply_out(payload, first, rows, cells, ratio, factors):
    """factors[c BLOCK + b] = ratio if report first + b marks cell cells[c], else 1."""
    for c in range(1, cells[0] + 1):
        byte, shift = cells[c] >> 3, np.uint8(cells[c] & 7)
        for b in range(rows):
            marked = (payload[first + b, byte] >> shift) & np.uint8(1)
            factors[c * BLOCK + b] = ratio if marked else 1.0


@inline
def _lanes_of(factors, positions, b):
    """The product of a value's factors for reports b to b + 7 of the block."""
    product = lanes.load(factors, positions[0] * BLOCK + b)
    for c in range(1, positions.size):
        product = product * lanes.load(factors, positions[c] * BLOCK + b)
    return product


@inline
def _mix(factors, positions, base, shares, probability):
    """probability[b] += sum over v of shares[v] base[v] times the product of v's factors."""
    for v in range(base.size):
        if shares[v] > 0:
            weight = shares[v] * base[v]
            for b in range(0, BLOCK, LANES):
                mixed = lanes.load(probability, b) + _lanes_of(factors, positions[v], b) * weight
                lanes.store(probability, b, mixed)


@inline
def _collect(factors, positions, base, pull, gradient):
    """gradient[v] += base[v] sum over b of pull[b] times the product of v's factors."""
    for v in range(base.size):
        total = lanes.f64x8(0.0)
        for b in range(0, BLOCK, LANES):
            total = total + _lanes_of(factors, positions[v], b) * lanes.load(pull, b)
        gradient[v] += base[v] * lanes.total(total)


@kernel
def expectations(
    payload, starts, cells, positions, base, ratio, flat, weights, shares, probabilities, gradient
):
    """probabilities = sum over v of shares_v L_v; gradient_v += the slope of log L.

    The slope is the sum over n of weights_n L_v / probabilities_n. flat[n] is the likelihood of
    report n under a random set, the last of shares and gradient.
    """
    values = base.shape[1]
    factors = np.ones(cells.shape[1] * BLOCK)
    probability, pull = np.empty(BLOCK), np.empty(BLOCK)
    for j in range(starts.size - 1):
        for first in range(starts[j], starts[j + 1], BLOCK):
            rows = min(BLOCK, starts[j + 1] - first)
            _multiply_out(payload, first, rows, cells[j], ratio, factors)
            probability[:] = 0.0
            _mix(factors, positions[j], base[j], shares, probability)
            pull[:] = 0.0
            for b in range(rows):
                n = first + b
                probabilities[n] = probability[b] + shares[values] * flat[n]
                pull[b] = weights[n] / probabilities[n]
                gradient[values] += pull[b] * flat[n]
            _collect(factors, positions[j], base[j], pull, gradient)


@kernel
def deviations(payload, starts, cells, positions, base, ratio, flat, weights, probabilities, out):
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
                scale[b] = root[b] / probabilities[first + b]
                out[values, first + b] = flat[first + b] * scale[b] - root[b]
            for v in range(values):
                _deviate(factors, positions[j, v], base[j, v], scale, root, line)
                for b in range(rows):
                    out[v, first + b] = line[b]


@inline
def _deviate(factors, positions, base, scale, root, line):
    """line[b] = base scale[b] times the product of a value's factors, - root[b]."""
    for b in range(0, BLOCK, 2 * LANES):
        low = _lanes_of(factors, positions, b) * lanes.load(scale, b) * base
        high = _lanes_of(factors, positions, b + LANES) * lanes.load(scale, b + LANES) * base
        low, high = low - lanes.load(root, b), high - lanes.load(root, b + LANES)
        lanes.store(line, b, lanes.narrow(low, high))


@kernel
def of_bits(payload, cohorts, members, base, powers, out):
    """Cell i of report r is bit i & 7 of payload[r, i >> 3]."""
    candidates, size = members.shape[1:]
    for r in range(payload.shape[0]):
        cohort = cohorts[r]
        for a in range(candidates):
            ones = 0
            for s in range(size):
                cell = members[cohort, a, s]
                if cell >= 0:
                    ones += (payload[r, cell >> 3] >> (cell & 7)) & 1
            out[r, a] = base[cohort, a] * powers[ones]


@kernel
def of_symbols(symbols, cohorts, members, base, powers, out):
    """Report r marks the cell symbols[r] alone."""
    candidates, size = members.shape[1:]
    for r in range(symbols.size):
        cohort, symbol = cohorts[r], symbols[r]
        for a in range(candidates):
            ones = 0
            for s in range(size):
                if members[cohort, a, s] == symbol:
                    ones = 1
            out[r, a] = base[cohort, a] * powers[ones]


@kernel
def weighted_marks(payload, weights, out):
    """out[r] = sum of weights[i] over the cells i that report r marks."""
    for r in range(payload.shape[0]):
        total = 0.0
        for octet in range(payload.shape[1]):
            left = np.uint32(payload[r, octet])
            at = 8 * octet
            while left:
                if left & np.uint32(1):
                    total += weights[at]
                left >>= np.uint32(1)
                at += 1
        out[r] = total


@kernel
def nonnegative_lasso(starts, rows, penalty, level, sweeps, close, residual, weights):
    """Lower |y - b - X w|**2 / 2 + penalty sum w over w >= 0, and over b where `level` is set.

    Column v of X has ones in rows[starts[v]:starts[v + 1]]; residual = y - b - X w on entry and on
    return. Ends when no weight changes by more than `close` in a sweep.
    """
    for _ in range(sweeps):
        largest = 0.0
        if level:
            mean = residual.mean()
            residual -= mean
            largest = abs(mean)
        for v in range(weights.size):
            begin, end = starts[v], starts[v + 1]
            if begin == end:
                continue
            total = 0.0
            for e in range(begin, end):
                total += residual[rows[e]]
            step = max((total - penalty) / (end - begin), -weights[v])
            if step != 0.0:
                weights[v] += step
                for e in range(begin, end):
                    residual[rows[e]] -= step
                largest = max(largest, abs(step))
        if largest <= close:
            break

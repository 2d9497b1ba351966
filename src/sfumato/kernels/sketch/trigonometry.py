"""Cosines and sines of integer phases, as integers: the same bits on every machine.

A phase counts parts of a turn modulo 2**32, so that its sum of products is exact in any order. Of
its leading 16 bits come cosine and sine, times 2**15 - 1 and rounded: 65,536 pairs, each within a
circle of radius 2**15 (polynomials of one written order, each step rounded as IEEE 754 says).
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    f32x16,
    f64x8,
    floats,
    fma,
    load,
    select,
    store,
    total,
    widen_high,
    widen_low,
)
from sfumato.kernels.sketch.layout import PANEL

__all__ = ["PANEL", "add", "answer", "fill"]

BLOCK = 512  # points whose integers below 2**15 in size float32 sums without rounding
ROUND = np.float32(3 << 22)  # added and taken off again, it leaves the nearest integer
STEP = np.float32(np.pi / 2**15)  # radians of one of the 2**16 parts of a turn
EIGHTH = np.float32(2**13)
SIZE = 2.0**15 - 1
# Taylor's coefficients: within an eighth of a turn what is left out is below 3e-7.
C0, C2, C4, C6, C8 = (np.float32(SIZE * c) for c in (1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320))
S1, S3, S5, S7 = (np.float32(SIZE * c) for c in (1, -1 / 6, 1 / 120, -1 / 5040))


@inline
def pair(phase):
    """Cosine and sine of 16 phases: by the distance from the nearest quarter of a turn."""
    part = (phase >> 16) + 8192
    quarter = part >> 14
    r = (floats(part & 16383) - EIGHTH) * STEP
    square = r * r
    c = fma(square, f32x16(C8), f32x16(C6))
    c = fma(square, c, f32x16(C4))
    c = fma(square, c, f32x16(C2))
    c = fma(square, c, f32x16(C0))
    s = fma(square, f32x16(S7), f32x16(S5))
    s = fma(square, s, f32x16(S3))
    s = fma(square, s, f32x16(S1)) * r
    c = (c + ROUND) - ROUND
    s = (s + ROUND) - ROUND
    odd, half, crossed = quarter & 1, quarter & 2, (quarter + 1) & 2
    cosine, sine = select(odd == 0, c, s), select(odd == 0, s, c)
    return select(crossed == 0, cosine, -cosine), select(half == 0, sine, -sine)


@inline
def phases(steps, i, turns, p):
    """The phases of point i at the 16 frequencies of panel p."""
    dimension = steps.shape[1]
    at = p * dimension * PANEL
    sums = load(turns, at) * steps[i, 0]
    for j in range(1, dimension):
        sums += load(turns, at + j * PANEL) * steps[i, j]
    return sums


@inline
def two_phases(steps, i, turns, p):
    """The phases of points i and i + 1."""
    dimension = steps.shape[1]
    at = p * dimension * PANEL
    here = load(turns, at)
    first, second = here * steps[i, 0], here * steps[i + 1, 0]
    for j in range(1, dimension):
        here = load(turns, at + j * PANEL)
        first += here * steps[i, j]
        second += here * steps[i + 1, j]
    return first, second


@kernel
def add(steps, turns, block, sums):
    """sums[:, m] += cosine and sine of every point's phase at frequency m; block is scratch."""
    count, width = steps.shape[0], sums.shape[1]
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        for p in range(turns.shape[0]):
            cosines, sines = f32x16(0), f32x16(0)
            for i in range(start, stop - 1, 2):  # two sums of products hide each other's wait
                first, second = two_phases(steps, i, turns, p)
                c, s = pair(first)
                d, t = pair(second)
                cosines += c + d
                sines += s + t
            if (stop - start) % 2:
                c, s = pair(phases(steps, stop - 1, turns, p))
                cosines += c
                sines += s
            store(block, 0, cosines)
            store(block, PANEL, sines)
            for lane in range(min(PANEL, width - PANEL * p)):
                sums[0, PANEL * p + lane] += np.int64(block[lane])
                sums[1, PANEL * p + lane] += np.int64(block[PANEL + lane])


@kernel
def fill(steps, turns, out):
    """out[i, 0, m] and out[i, 1, m]: cosine and sine of point i, for every m of all panels."""
    width = out.shape[2]
    for i in range(steps.shape[0]):
        for p in range(turns.shape[0]):
            c, s = pair(phases(steps, i, turns, p))
            store(out, 2 * i * width + PANEL * p, c)
            store(out, (2 * i + 1) * width + PANEL * p, s)


@kernel
def answer(steps, turns, cells, out):
    """out[i] = sum over m of cells[0, m] cosine + cells[1, m] sine of point i."""
    width = cells.shape[1]
    for i in range(steps.shape[0]):
        low, high = f64x8(0), f64x8(0)
        for p in range(turns.shape[0]):
            c, s = pair(phases(steps, i, turns, p))
            at = PANEL * p
            low = fma(widen_low(c), load(cells, at), low)
            high = fma(widen_high(c), load(cells, at + 8), high)
            low = fma(widen_low(s), load(cells, width + at), low)
            high = fma(widen_high(s), load(cells, width + at + 8), high)
        out[i] = total(low + high)

"""Entries that stand for a key in every dimension of a projection, made from the key's hash alone.

Entry j of a key of hash h comes from word mix(h + (t + 1) GOLDEN), so no table of keys is kept and
one key's entries never depend on the other keys. Only + - * / and sqrt touch floats, in a written
order, so the entries are the same bits on every machine. Out is in panels: out[p, i, c] is entry
16 p + c of key i.

Codes of bits packed 64 to a word, lowest first: made from signs, compared by their distance. Codes
that name a bucket in each projection: made by rounding down, compared one to one.
"""

import math

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    bits,
    count_leading_zeros,
    load,
    narrow,
    popcount,
    population_count,
    select,
    store,
    u32x16,
    u64x8,
)
from sfumato.kernels.sketch.layout import PANEL

__all__ = [
    "PANEL",
    "cauchy",
    "equal",
    "fill",
    "gaussian",
    "hamming",
    "pack_signs",
    "signs",
    "ternary",
    "walsh",
]

LOW = np.uint64(2**32 - 1)
HALF = np.uint64(32)
ROOT, LN2 = math.sqrt(0.5), 0.6931471805599453
ATANH = tuple(2 / (2 * k + 1) for k in range(10))
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(8))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(9))


@inline
def _word(h, t):
    return mix(h + np.uint64(t + 1) * GOLDEN)


@inline
def _radius(bits):
    """sqrt(-2 ln u) for u = (bits + 1/2) / 2**32: at most 6.8."""
    z = bits * np.uint64(2) + np.uint64(1)
    zeros = count_leading_zeros(z)
    m = np.float64(np.int64(z << np.uint64(zeros - 1))) * 2.0**-63  # from 1/2 up to 1
    s = (m - ROOT) / (m + ROOT)
    q = s * s
    series = ATANH[9]
    for k in range(8, -1, -1):
        series = series * q + ATANH[k]
    log = (s * series - LN2 / 2) - np.float64(zeros - 31) * LN2
    return math.sqrt(-2.0 * log)


@inline
def _circle(bits):
    """Cosine and sine of the angle 2 pi (bits + 1/2) / 2**32, neither ever 0."""
    quarter = np.int64(bits >> np.uint64(30))
    part = np.float64(np.int64(bits & np.uint64(2**30 - 1))) + (0.5 - 2.0**29)
    x = part * (math.pi / 2 * 2.0**-30)  # within pi/4 of the middle of the quarter
    q = x * x
    s, c = SINE[7], COSINE[8]
    for k in range(6, -1, -1):
        s = s * q + SINE[k]
    for k in range(7, -1, -1):
        c = c * q + COSINE[k]
    s *= x
    # The middle of the first quarter lies at pi/4; each quarter more turns (c, s) to (-s, c).
    across, up = (c - s) * ROOT, (c + s) * ROOT
    odd, half = quarter & 1, quarter >> 1
    turn = 1.0 - 2.0 * half
    return turn * (-up if odd else across), turn * (across if odd else up)


def gaussian(hashes: np.ndarray, out: np.ndarray) -> None:
    """Standard normal entries: Box and Muller, one word for two entries.

    >>> gaussian(np.arange(2, dtype=np.uint64), out := np.empty((1, 2, PANEL)))
    >>> out[0, :, 0].round(3)
    array([-0.416,  1.066])
    """
    box_muller(hashes, np.empty((2, 8 * len(out))), out)


@kernel
def box_muller(hashes, pairs, out):
    """The entries of `gaussian`; pairs is scratch of two rows with 8 numbers for each panel."""
    for i in range(hashes.size):
        key = hashes[i]
        for t in range(pairs.shape[1]):
            word = _word(key, t)
            radius = _radius(word >> HALF)
            c, s = _circle(word & LOW)
            pairs[0, t] = radius * c
            pairs[1, t] = radius * s
        _lay_out(pairs, i, out)


@kernel
def cauchy(hashes, out):
    """Standard Cauchy entries: the slope of a uniform direction, one word for two entries."""
    pairs = np.empty((2, 8 * out.shape[0]))
    for i in range(hashes.size):
        for t in range(pairs.shape[1]):
            word = _word(hashes[i], t)
            c, s = _circle(word >> HALF)
            pairs[0, t] = s / c
            c, s = _circle(word & LOW)
            pairs[1, t] = s / c
        _lay_out(pairs, i, out)


@inline
def _lay_out(pairs, i, out):
    # Going through a flat row lets the compiler vectorise the loop that fills it.
    for p in range(out.shape[0]):
        for t in range(8):
            out[p, i, t] = pairs[0, 8 * p + t]
            out[p, i, t + 8] = pairs[1, 8 * p + t]


@kernel
def signs(hashes, out):
    """Entries +1 or -1 with equal probability."""
    for p in range(out.shape[0]):
        for i in range(hashes.size):
            word = _word(hashes[i], p)
            for c in range(16):
                out[p, i, c] = 1.0 - 2.0 * np.float64(np.int64(word >> np.uint64(c)) & 1)


@kernel
def ternary(hashes, out):
    """Entries +1 and -1 with probability 1/6 each, otherwise 0."""
    for p in range(out.shape[0]):
        for i in range(hashes.size):
            for t in range(8):
                word = _word(hashes[i], 8 * p + t)
                out[p, i, t] = _sixth((word >> HALF) * np.uint64(6) >> HALF)
                out[p, i, t + 8] = _sixth((word & LOW) * np.uint64(6) >> HALF)


@inline
def _sixth(side):
    return np.float64(side == np.uint64(0)) - np.float64(side == np.uint64(1))


@kernel
def walsh(rows, flips, columns, out):
    """Entry j of key i: flips[i] times the Hadamard matrix at rows[i], columns[j]."""
    for p in range(out.shape[0]):
        for i in range(rows.size):
            for c in range(16):
                shared = population_count(rows[i] & columns[16 * p + c])
                out[p, i, c] = flips[i] * (1.0 - 2.0 * np.float64(shared & 1))


@kernel
def pack_signs(values, out):
    """Bit j of out[r] says values[r, j] > 0; values has a multiple of 8 columns."""
    count, width = values.shape
    for r in range(count):
        for word in range(out.shape[1]):
            packed = np.uint64(0)
            for j in range(64 * word, min(64 * word + 64, width), 8):
                positive = bits(load(values, r * width + j) > 0.0)
                packed |= positive << np.uint64(j - 64 * word)
            out[r, word] = packed


@kernel
def hamming(codes, panels, out):
    """out[r, 16 p + c] = how many bits differ between codes[r] and panels[p, :, c]."""
    words, width = panels.shape[1], out.shape[1]
    for p in range(panels.shape[0]):
        for r in range(codes.shape[0]):
            low, high = u64x8(0), u64x8(0)
            for word in range(words):
                at = 16 * (p * words + word)
                code = u64x8(codes[r, word])
                low += popcount(load(panels, at) ^ code)
                high += popcount(load(panels, at + 8) ^ code)
            store(out, r * width + 16 * p, narrow(low, high))


@kernel
def fill(values, offsets, width, reach, out):
    """out[r, j] = floor((values[r, j] + offsets[j]) / width) modulo 2**32.

    Gives the first row with a bucket as far out as `reach`, or -1.
    """
    for r in range(out.shape[0]):
        for j in range(out.shape[1]):
            bucket = np.floor((values[r, j] + offsets[j]) / width)
            if not abs(bucket) < reach:
                return r
            out[r, j] = np.int32(np.int64(bucket))
    return -1


@kernel
def equal(codes, panels, out):
    """out[r, 16 p + c] = the number of positions where codes[r] equals panels[p, :, c]."""
    hashes, width = panels.shape[1], out.shape[1]
    for p in range(panels.shape[0]):
        for r in range(codes.shape[0]):
            same = u32x16(0)
            for k in range(hashes):
                equal = load(panels, 16 * (p * hashes + k)) == u32x16(codes[r, k])
                same = select(equal, same + 1, same)
            store(out, r * width + 16 * p, same)

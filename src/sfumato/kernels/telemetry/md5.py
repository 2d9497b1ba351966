"""MD5 of a cohort and a text, for many of them: the first bytes choose the published Bloom bits.

Collisions of MD5 can be made at will, so nothing here is kept secret by it.

RFC 1321, section 3.
"""

import math

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["first_bytes"]

ADDED = np.array([int(2**32 * abs(math.sin(t + 1))) for t in range(64)], np.uint32)
TURNS = np.array([[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], np.uint32)
START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
HEAD = 4  # bytes of the cohort, the highest first


@inline
def _byte(cohort, data, start, length, at):
    """Byte `at` of the message as it is padded, its last 8 bytes apart."""
    if at < HEAD:
        return np.uint32(cohort) >> np.uint32(8 * (HEAD - 1 - at)) & np.uint32(255)
    if at < length:
        return np.uint32(data[start + at - HEAD])
    return np.uint32(128) if at == length else np.uint32(0)


@inline
def _fill(cohort, data, start, length, begin, last, w):
    for t in range(16):
        w[t] = np.uint32(0)
        for j in range(4):
            byte = _byte(cohort, data, start, length, begin + 4 * t + j)
            w[t] |= byte << np.uint32(8 * j)
    if last:
        bits = np.uint64(length) << np.uint64(3)
        w[14] = np.uint32(bits & np.uint64(0xFFFFFFFF))
        w[15] = np.uint32(bits >> np.uint64(32))


@inline
def _mixed(t, b, c, d):
    """The function of round t // 16, and the word that it takes."""
    if t < 16:
        return (b & c) | (~b & d), t
    if t < 32:
        return (d & b) | (~d & c), (5 * t + 1) % 16
    if t < 48:
        return b ^ c ^ d, (3 * t + 5) % 16
    return c ^ (b | ~d), 7 * t % 16


@inline
def _compress(w, state):
    a, b, c, d = state[0], state[1], state[2], state[3]
    for t in range(64):
        mixed, word = _mixed(t, b, c, d)
        # Numba adds 32-bit numbers in 64 bits, so every sum is cut back before it is turned.
        total = np.uint32(a + mixed + ADDED[t] + w[word])
        by = TURNS[t // 16, t % 4]
        turned = np.uint32(total << by | total >> (np.uint32(32) - by))
        a, d, c, b = d, c, b, np.uint32(b + turned)
    state[0], state[1], state[2], state[3] = state[0] + a, state[1] + b, state[2] + c, state[3] + d


@kernel
def first_bytes(cohorts, data, offsets, codes, out):
    """out[r] = the first bytes of MD5 of cohorts[r] in four bytes and the text codes[r]."""
    w, state = np.empty(16, np.uint32), np.empty(4, np.uint32)
    for r in range(codes.size):
        start = offsets[codes[r]]
        length = HEAD + offsets[codes[r] + 1] - start
        state[:] = START
        blocks = (length + 8) // 64 + 1
        for i in range(blocks):
            _fill(cohorts[r], data, start, length, 64 * i, i == blocks - 1, w)
            _compress(w, state)
        for j in range(out.shape[1]):
            out[r, j] = np.uint8(state[j // 4] >> np.uint32(8 * (j % 4)) & np.uint32(255))

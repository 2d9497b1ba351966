"""SHA-256 and HMAC-SHA-256 of many short messages, sixteen at a time, one in every vector lane.

Bytes are read as words, the first byte highest. Message r is the first `size` bytes, below 64, of
heads[which[r]], whose rows are 16 words, zero beyond; and then data[offsets[c]:offsets[c + 1]], the
bytes of the text c = codes[r]. States and digests are eight words; one row of states serves all
messages. Lane i of word t of a block stands at position 16 t + i.

Arrays are copied word by word: an assignment to a slice would compile what words its error, which
takes longer than all the rest.

FIPS 180-4, sections 5 and 6.2; RFC 2104.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, mask16, select, store, u32x16

__all__ = ["BLOCK", "INITIAL", "hashed", "midstates"]


def _roots(count, power):
    """The first 32 bits after the point of the roots of the first primes, in integers."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, n))][:count]
    bits = [_root(prime << 32 * power, power) & 0xFFFFFFFF for prime in primes]
    return np.array(bits, np.uint32)


def _root(number, power):
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= number else (low, middle)
    return low


INITIAL = _roots(8, 2).reshape(1, 8)
ROUND = _roots(64, 3)
BLOCK = 64  # bytes


@inline
def _compress(w, state):
    """state = the state after one more block, whose sixteen words begin w."""
    for t in range(256, 1024, 16):
        a, b = load(w, t - 240), load(w, t - 32)
        near = ((a >> 7) | (a << 25)) ^ ((a >> 18) | (a << 14)) ^ (a >> 3)
        far = ((b >> 17) | (b << 15)) ^ ((b >> 19) | (b << 13)) ^ (b >> 10)
        store(w, t, load(w, t - 256) + near + load(w, t - 112) + far)
    a, b, c, d = load(state, 0), load(state, 16), load(state, 32), load(state, 48)
    e, f, g, h = load(state, 64), load(state, 80), load(state, 96), load(state, 112)
    for t in range(64):
        mixed = ((e >> 6) | (e << 26)) ^ ((e >> 11) | (e << 21)) ^ ((e >> 25) | (e << 7))
        first = h + mixed + (g ^ (e & (f ^ g))) + u32x16(ROUND[t]) + load(w, 16 * t)
        mixed = ((a >> 2) | (a << 30)) ^ ((a >> 13) | (a << 19)) ^ ((a >> 22) | (a << 10))
        second = mixed + ((a & b) | (c & (a | b)))
        h, g, f, e, d, c, b, a = g, f, e, d + first, c, b, a, first + second
    store(state, 0, load(state, 0) + a)
    store(state, 16, load(state, 16) + b)
    store(state, 32, load(state, 32) + c)
    store(state, 48, load(state, 48) + d)
    store(state, 64, load(state, 64) + e)
    store(state, 80, load(state, 80) + f)
    store(state, 96, load(state, 96) + g)
    store(state, 112, load(state, 112) + h)


@inline
def _put(heads, which, size, data, start, stop, before, block, i, w):
    """Lane i of w = this block of the padded message; `before` bytes were hashed already."""
    skip = BLOCK * block
    length, at = size + stop - start - skip, size - skip  # as positions of this block
    for t in range(16):
        w[16 * t + i] = heads[which, t] if block == 0 else np.uint32(0)
    for j in range(max(at, 0), min(length, BLOCK)):
        w[16 * (j >> 2) + i] |= np.uint32(data[start + j - at]) << np.uint32(24 - 8 * (j & 3))
    if 0 <= length < BLOCK:
        w[16 * (length >> 2) + i] |= np.uint32(0x80000000) >> np.uint32(8 * (length & 3))
    if length < BLOCK - 8:
        bits = 8 * (before + skip + length)
        w[224 + i], w[240 + i] = np.uint32(bits >> 32), np.uint32(bits & 0xFFFFFFFF)


@inline
def _state(states, begin, lanes, state):
    for i in range(lanes):
        r = begin + i if states.shape[0] > 1 else 0
        for j in range(8):
            state[16 * j + i] = states[r, j]


@inline
def _out(state, begin, lanes, out):
    for i in range(lanes):
        for j in range(8):
            out[begin + i, j] = state[16 * j + i]


@inline
def _blocks(size, offsets, codes, begin, lanes):
    """The number of blocks of the longest of the messages begin to begin + lanes."""
    most = 0
    for i in range(lanes):
        code = codes[begin + i]
        most = max(most, (size + offsets[code + 1] - offsets[code] + 8) // BLOCK)
    return most + 1


@inline
def _digest_block(state, w):
    """w = the only block of a digest that is hashed after the block of a key."""
    for t in range(256):
        w[t] = state[t] if t < 128 else np.uint32(0)
    for i in range(16):
        w[128 + i] = np.uint32(1 << 31)
        w[240 + i] = np.uint32(8 * (BLOCK + 32))


@kernel
def hashed(inner, outer, before, heads, size, which, data, offsets, codes, out):
    """out[r] = the hash of message r from the state inner[r], after which `before` bytes stand.

    Without rows of `outer` that is the digest itself: SHA-256, if the state is `INITIAL` and
    `before` 0. With them it is hashed once more from the state outer[r]: HMAC, if the states are
    the `midstates` of a key and `before` 64. A lane ends at its own block.
    """
    w, state, held = np.empty(1024, np.uint32), np.empty(128, np.uint32), np.empty(128, np.uint32)
    for begin in range(0, out.shape[0], 16):
        lanes = min(16, out.shape[0] - begin)
        _state(inner, begin, lanes, state)
        blocks = _blocks(size, offsets, codes, begin, lanes)
        for block in range(blocks + (outer.shape[0] > 0)):
            running = np.uint64(0)
            if block == blocks:
                _digest_block(state, w)
                _state(outer, begin, lanes, state)
            for i in range(lanes):
                code = codes[begin + i]
                start, stop = offsets[code], offsets[code + 1]
                if block == blocks or (size + stop - start + 8) // BLOCK >= block:
                    running |= np.uint64(1) << np.uint64(i)
                    if block < blocks:
                        _put(heads, which[begin + i], size, data, start, stop, before, block, i, w)
            for j in range(128):
                held[j] = state[j]
            _compress(w, state)
            for j in range(0, 128, 16):
                store(state, j, select(mask16(running), load(state, j), load(held, j)))
        _out(state, begin, lanes, out)


@kernel
def midstates(initial, keys, inner, outer):
    """The states after the block of each key, sixteen words, padded in both ways of HMAC."""
    w, state = np.empty(1024, np.uint32), np.empty(128, np.uint32)
    for begin in range(0, keys.shape[0], 16):
        lanes = min(16, keys.shape[0] - begin)
        for out, pad in ((inner, np.uint32(0x36363636)), (outer, np.uint32(0x5C5C5C5C))):
            for i in range(lanes):
                for t in range(16):
                    w[16 * t + i] = keys[begin + i, t] ^ pad
            _state(initial, begin, lanes, state)
            _compress(w, state)
            _out(state, begin, lanes, out)

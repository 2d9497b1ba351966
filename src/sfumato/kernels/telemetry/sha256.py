"""SHA-256 and HMAC-SHA-256 of many short messages, sixteen at a time, one in every vector lane.

Bytes are read as words, the first byte highest. Message r is the first `size` bytes, below 64, of
heads[which[r]], whose rows are 16 words, zero beyond; and then data[offsets[c]:offsets[c + 1]], the
bytes of the text c = codes[r]. States and digests are eight words; one row of states serves all
messages. Lane i of word t of a block stands at position 16 t + i.

FIPS 180-4, sections 5 and 6.2; RFC 2104.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import load, mask16, select, store, u32x16

__all__ = ["INITIAL", "digest", "keyed", "midstates"]


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


INITIAL = _roots(8, 2)
ROUND = _roots(64, 3)
BLOCK = 64  # bytes


@inline
def _turned(x, by):
    return (x >> by) | (x << (32 - by))


@inline
def _compress(w, state):
    """state = the state after one more block, whose sixteen words begin w."""
    for t in range(256, 1024, 16):
        a, b = load(w, t - 240), load(w, t - 32)
        near = _turned(a, 7) ^ _turned(a, 18) ^ (a >> 3)
        far = _turned(b, 17) ^ _turned(b, 19) ^ (b >> 10)
        store(w, t, load(w, t - 256) + near + load(w, t - 112) + far)
    a, b, c, d = load(state, 0), load(state, 16), load(state, 32), load(state, 48)
    e, f, g, h = load(state, 64), load(state, 80), load(state, 96), load(state, 112)
    for t in range(64):
        mixed = _turned(e, 6) ^ _turned(e, 11) ^ _turned(e, 25)
        first = h + mixed + (g ^ (e & (f ^ g))) + u32x16(ROUND[t]) + load(w, 16 * t)
        mixed = _turned(a, 2) ^ _turned(a, 13) ^ _turned(a, 22)
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
def _word(data, start, at, length, position):
    """The four bytes of the block from `position` on, those of the text from `at` to length."""
    if at <= position and position + 4 <= length:
        first = start + position - at
        high = np.uint32(data[first]) << np.uint32(24) | np.uint32(data[first + 1]) << np.uint32(16)
        return high | np.uint32(data[first + 2]) << np.uint32(8) | np.uint32(data[first + 3])
    word = np.uint32(0)
    for j in range(max(position, at), min(position + 4, length)):
        word |= np.uint32(data[start + j - at]) << np.uint32(24 - 8 * (j - position))
    return word


@inline
def _put(head, size, data, start, stop, before, block, i, w):
    """Lane i of w = this block of the padded message; `before` bytes were hashed already."""
    skip = BLOCK * block
    length, at = size + stop - start - skip, size - skip  # as positions of this block
    for t in range(16):
        w[16 * t + i] = head[t] if block == 0 else np.uint32(0)
    for position in range(max(at, 0) & ~3, min(length, BLOCK), 4):
        w[4 * position + i] |= _word(data, start, at, length, position)
    if 0 <= length < BLOCK:
        w[16 * (length >> 2) + i] |= np.uint32(0x80000000) >> np.uint32(8 * (length & 3))
    if length < BLOCK - 8:
        bits = 8 * (before + skip + length)
        w[224 + i], w[240 + i] = np.uint32(bits >> 32), np.uint32(bits & 0xFFFFFFFF)


@inline
def _own(table, r):
    return table[r if table.shape[0] > 1 else 0]


@inline
def _state(states, begin, lanes, state):
    for i in range(lanes):
        own = _own(states, begin + i)
        for j in range(8):
            state[16 * j + i] = own[j]


@inline
def _messages(states, before, heads, size, which, data, offsets, codes, begin, lanes, scratch):
    """The state after the messages begin to begin + lanes, of lanes that end at their own block."""
    w, state, held = scratch
    _state(states, begin, lanes, state)
    most = 0
    for i in range(lanes):
        code = codes[begin + i]
        most = max(most, (size + offsets[code + 1] - offsets[code] + 8) // BLOCK)
    for block in range(most + 1):
        running = np.uint64(0)
        for i in range(lanes):
            code = codes[begin + i]
            start, stop = offsets[code], offsets[code + 1]
            if (size + stop - start + 8) // BLOCK >= block:
                running |= np.uint64(1) << np.uint64(i)
                head = heads[which[begin + i]]
                _put(head, size, data, start, stop, before, block, i, w)
        held[:] = state
        _compress(w, state)
        for j in range(0, 128, 16):
            store(state, j, select(mask16(running), load(state, j), load(held, j)))


@inline
def _scratch():
    return (
        np.zeros(1024, np.uint32),
        np.zeros(128, np.uint32),
        np.zeros(128, np.uint32),
    )


@inline
def _out(state, begin, lanes, out):
    for i in range(lanes):
        for j in range(8):
            out[begin + i, j] = state[16 * j + i]


@kernel
def digest(heads, size, which, data, offsets, codes, out):
    """out[r] = SHA-256 of message r."""
    scratch, states = _scratch(), INITIAL.reshape(1, 8)
    for begin in range(0, out.shape[0], 16):
        lanes = min(16, out.shape[0] - begin)
        _messages(states, 0, heads, size, which, data, offsets, codes, begin, lanes, scratch)
        _out(scratch[1], begin, lanes, out)


@kernel
def keyed(inner, outer, heads, size, which, data, offsets, codes, out):
    """out[r] = HMAC of message r under the key whose midstates are inner[r] and outer[r]."""
    scratch = _scratch()
    w, state, _ = scratch
    for begin in range(0, out.shape[0], 16):
        lanes = min(16, out.shape[0] - begin)
        _messages(inner, BLOCK, heads, size, which, data, offsets, codes, begin, lanes, scratch)
        w[:128] = state
        w[128:256] = 0
        w[128:144] = np.uint32(1 << 31)
        w[240:256] = np.uint32(8 * (BLOCK + 32))
        _state(outer, begin, lanes, state)
        _compress(w, state)
        _out(state, begin, lanes, out)


@kernel
def midstates(keys, inner, outer):
    """The states after the block of each key, sixteen words, padded in both ways of HMAC."""
    w, state, _ = _scratch()
    states = INITIAL.reshape(1, 8)
    for begin in range(0, keys.shape[0], 16):
        lanes = min(16, keys.shape[0] - begin)
        for out, pad in ((inner, np.uint32(0x36363636)), (outer, np.uint32(0x5C5C5C5C))):
            for i in range(lanes):
                for t in range(16):
                    w[16 * t + i] = keys[begin + i, t] ^ pad
            _state(states, begin, lanes, state)
            _compress(w, state)
            _out(state, begin, lanes, out)

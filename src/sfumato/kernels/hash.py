"""The 64-bit hashes of keys, and the rows and signs that sketches derive from them.

Integers: h(x) = mix(x ^ k) with k = mix(seed + GOLDEN), where mix is Evensen's "moremur" finalizer;
an unsigned integer of 2**63 or more takes one mix more, so that it differs from every negative one.
Bytes: XXH64 with the same seed, unless they are the decimal text of an integer from -2**63 to
2**64 - 1 (no leading zero or plus sign; a final ".0" is allowed), which hashes as that integer: a
key has one hash, whether it was read as a number or as text. Row r of a sketch uses the product
h * ROW[r] (mod 2**64): its high 32 bits choose the cell, bit 31 chooses the sign.

Little-endian words at raw addresses, so that one kernel reads every Arrow buffer in place.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sfumato.kernels.jit import inline, kernel

__all__ = [
    "ROW",
    "byte_at",
    "gather",
    "integers",
    "key_of",
    "mix",
    "of_bytes",
    "of_integer",
    "of_unsigned",
    "row_sign",
    "row_slot",
    "strings",
    "unsigned",
    "views",
    "word32_at",
    "word64_at",
    "xxh64",
]


def _reader(bits):
    @intrinsic
    def read(typing, address):
        def lower(context, builder, signature, arguments):
            word = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], word.as_pointer()))
            value.align = 1  # Arrow slices start anywhere
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.uint64(types.uint64), lower

    return read


byte_at, word32_at, word64_at = _reader(8), _reader(32), _reader(64)


GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MASK = 2**64 - 1
HALF = np.uint64(32)


def key_of(seed: int) -> np.uint64:
    """The mixed seed that integers are hashed with: mix(seed + GOLDEN), in plain Python."""
    z = (seed + int(GOLDEN)) & MASK
    z = ((z ^ z >> 27) * 0x3C79AC492BA7B653) & MASK
    z = ((z ^ z >> 33) * 0x1C69B3F74AC4AE35) & MASK
    return np.uint64(z ^ z >> 27)


# Odd 64-bit multipliers, one a row; a test measures that the rows collide independently.
ROW = np.array([key_of(r * 0x632BE59BD9B4E019) | np.uint64(1) for r in range(64)], np.uint64)


@inline
def mix(z):
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x3C79AC492BA7B653)
    z = (z ^ (z >> np.uint64(33))) * np.uint64(0x1C69B3F74AC4AE35)
    return z ^ (z >> np.uint64(27))


@inline
def of_integer(value, key):
    return mix(np.uint64(value) ^ key)


@inline
def of_unsigned(value, key):
    h = mix(value ^ key)
    return mix(h + GOLDEN) if value >> np.uint64(63) else h


@inline
def row_slot(product, width):
    """The cell of a row: the product's high half scaled to 0..width-1; width is at most 2**32."""
    return ((product >> HALF) * width) >> HALF


@inline
def row_sign(product):
    """+1 or -1, from a bit that does not choose the cell."""
    return np.int64(1) - np.int64((product >> np.uint64(30)) & np.uint64(2))


@kernel
def integers(values, key, out):
    for i in range(values.size):
        out[i] = of_integer(values[i], key)


@kernel
def unsigned(values, key, out):
    for i in range(values.size):
        out[i] = of_unsigned(values[i], key)


@kernel
def gather(table, indices, out):
    for i in range(indices.size):
        out[i] = table[indices[i]]


P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)


@inline
def _turn(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@inline
def _round(lane, word):
    return _turn(lane + word * P2, 31) * P1


@inline
def _merge(h, lane):
    return (h ^ _round(np.uint64(0), lane)) * P1 + P4


@kernel
def _stripes(at, size, seed):
    """The hash of the whole 32-byte stripes of a long key, and where they end."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    end = at + (size & ~np.uint64(31))
    while at < end:
        a = _round(a, word64_at(at))
        b = _round(b, word64_at(at + np.uint64(8)))
        c = _round(c, word64_at(at + np.uint64(16)))
        d = _round(d, word64_at(at + np.uint64(24)))
        at += np.uint64(32)
    h = _turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)
    return _merge(_merge(_merge(_merge(h, a), b), c), d), at


@inline
def _last_bytes(h, at, rest):
    """Mix in the last 1 to 3 bytes without a branch on how many: lengths are hard to predict."""
    h = _turn(h ^ (byte_at(at) * P5), 11) * P1
    second = _turn(h ^ (byte_at(at + (rest >> np.uint64(1))) * P5), 11) * P1
    h = second if rest >= np.uint64(2) else h
    third = _turn(h ^ (byte_at(at + rest - np.uint64(1)) * P5), 11) * P1
    return third if rest >= np.uint64(3) else h


@inline
def xxh64(at, size, seed):
    """XXH64 of the `size` bytes that start at address `at`."""
    if size >= np.uint64(32):
        h, at = _stripes(at, size, seed)
    else:
        h = seed + P5
    h += size
    rest = size & np.uint64(31)
    while rest >= np.uint64(8):
        h = _turn(h ^ _round(np.uint64(0), word64_at(at)), 27) * P1 + P4
        at += np.uint64(8)
        rest -= np.uint64(8)
    if rest >= np.uint64(4):
        h = _turn(h ^ (word32_at(at) * P1), 23) * P2 + P3
        at += np.uint64(4)
        rest -= np.uint64(4)
    if rest:
        h = _last_bytes(h, at, rest)
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


ZERO, NINE, MINUS, POINT = np.uint64(0x30), np.uint64(0x39), np.uint64(0x2D), np.uint64(0x2E)
LONGEST = np.uint64(22)  # "-9223372036854775808.0"
TEN = np.uint64(10)
TOP, TOP_DIGIT = np.uint64((2**64 - 1) // 10), np.uint64((2**64 - 1) % 10)


@kernel
def _decimal(at, size):
    """Whether the bytes are the decimal text of a 64-bit integer, its size, and its sign."""
    end = at + size
    ends = size > np.uint64(2) and byte_at(end - np.uint64(1)) == ZERO
    if ends and byte_at(end - np.uint64(2)) == POINT:
        end -= np.uint64(2)
    negative = byte_at(at) == MINUS
    if negative:
        at += np.uint64(1)
    # No digit, or a zero in front of others or behind a minus sign: not how an integer is written.
    if at >= end or (byte_at(at) == ZERO and (negative or end - at > np.uint64(1))):
        return False, np.uint64(0), negative
    value = np.uint64(0)
    while at < end:
        digit = byte_at(at) - ZERO  # wraps around below "0"
        if digit > np.uint64(9) or value > TOP or (value == TOP and digit > TOP_DIGIT):
            return False, np.uint64(0), negative
        value = value * TEN + digit
        at += np.uint64(1)
    if negative and value > np.uint64(2**63):
        return False, np.uint64(0), negative
    return True, value, negative


@inline
def of_bytes(at, size, seed, key):
    """The hash of a text: of the integer it is the decimal text of, else XXH64."""
    if size and size <= LONGEST:
        first = byte_at(at)
        if first <= NINE and (first >= ZERO or first == MINUS):
            number, value, negative = _decimal(at, size)
            if number:
                return mix((np.uint64(0) - value) ^ key) if negative else of_unsigned(value, key)
    return xxh64(at, size, seed)


@kernel
def strings(data, offsets, seed, out):
    """out[i] = the hash of the bytes offsets[i] to offsets[i + 1] after the address data."""
    key = mix(seed + GOLDEN)
    start = np.uint64(offsets[0])
    for i in range(out.size):
        end = np.uint64(offsets[i + 1])
        out[i] = of_bytes(data + start, end - start, seed, key)
        start = end


@kernel
def views(data, buffers, seed, out):
    """out[i] = the hash of Arrow view i of 16 bytes at data: short ones inline, long in buffers."""
    key = mix(seed + GOLDEN)
    for i in range(out.size):
        view = data + np.uint64(16 * i)
        size = word32_at(view)
        at = view + np.uint64(4)
        if size > np.uint64(12):
            at = buffers[word32_at(view + np.uint64(8))] + word32_at(view + np.uint64(12))
        out[i] = of_bytes(at, size, seed, key)

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
from llvmlite import binding, ir
from numba import types

from sfumato.kernels.jit import inline, intrinsic, kernel
from sfumato.kernels.lanes import (
    bits,
    count_trailing_zeros,
    load,
    select,
    store,
    stripes_at,
    turned,
    u64x8,
    words_at,
)
from sfumato.kernels.seed_keys import GOLDEN, key_of

__all__ = [
    "ROOM",
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


HALF = np.uint64(32)


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
def _round(lane, word):
    return turned(lane + word * P2, 31) * P1


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
    h = turned(a, 1) + turned(b, 7) + turned(c, 12) + turned(d, 18)
    return _merge(_merge(_merge(_merge(h, a), b), c), d), at


@inline
def _last_bytes(h, at, rest):
    """Mix in the last 1 to 3 bytes without a branch on how many: lengths are hard to predict."""
    h = turned(h ^ (byte_at(at) * P5), 11) * P1
    second = turned(h ^ (byte_at(at + (rest >> np.uint64(1))) * P5), 11) * P1
    h = second if rest >= np.uint64(2) else h
    third = turned(h ^ (byte_at(at + rest - np.uint64(1)) * P5), 11) * P1
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
        h = turned(h ^ _round(np.uint64(0), word64_at(at)), 27) * P1 + P4
        at += np.uint64(8)
        rest -= np.uint64(8)
    if rest >= np.uint64(4):
        h = turned(h ^ (word32_at(at) * P1), 23) * P2 + P3
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


LANES = 8  # keys hashed at once
MANY = 256  # keys whose addresses are noted before they are hashed: they stay in the first cache
ROOM = MANY + LANES  # in a row of the buffer; the last lanes may have no key
PAGE = np.uint64(4096)  # bytes; no page of memory is smaller
ZEROS = np.uint64(0x3030303030303030)  # the digits "00000000"
POINT_ZERO = np.uint64(0x302E)  # the text ".0"


@inline
def _stripes8(at, size, seed):
    """`_stripes` of eight keys; lanes of keys below 32 bytes are without meaning."""
    a, b = u64x8(seed + P1 + P2), u64x8(seed + P2)
    c, d = u64x8(seed), u64x8(seed - P1)
    end = at + (size & ~np.uint64(31))
    more = at < end
    while bits(more):
        first, second, third, fourth = stripes_at(at, more)
        a = select(more, _round(a, first), a)
        b = select(more, _round(b, second), b)
        c = select(more, _round(c, third), c)
        d = select(more, _round(d, fourth), d)
        at = select(more, at + 32, at)
        more = at < end
    h = turned(a, 1) + turned(b, 7) + turned(c, 12) + turned(d, 18)
    return _merge(_merge(_merge(_merge(h, a), b), c), d), at


@inline
def _first_word8(at, size):
    """The first 8 bytes of eight keys, with zeros behind a shorter one; it reads only their pages.

    A short key is read together with what follows, unless a page may end before 8 bytes do: then
    the 8 bytes before its end are on its page.
    """
    forward = (size >= 8) | ((at & (PAGE - np.uint64(1))) <= PAGE - np.uint64(8))
    word = words_at(select(forward, at, at + size - 8), size > 0)
    missing = (u64x8(8) - size) << 3
    return select(size >= 8, word, select(forward, word << missing, word) >> missing)


@inline
def _word_step(h, word):
    return turned(h ^ _round(np.uint64(0), word), 27) * P1 + P4


@inline
def _last_bytes8(h, word, rest):
    """Mix in the last `rest` bytes, fewer than 8."""
    half = rest >= 4
    h = select(half, turned(h ^ ((word & np.uint64(2**32 - 1)) * P1), 23) * P2 + P3, h)
    word = select(half, word >> 32, word)
    rest = rest & 3
    for j in range(3):
        h = select(rest > j, turned(h ^ ((word & 255) * P5), 11) * P1, h)
        word = word >> 8
    return h


@inline
def _xxh64_8(at, size, first, last, seed):
    """XXH64 of eight keys, whose first and last words are read already."""
    h, word = u64x8(seed + P5), first
    rest = size & 31
    if bits(size >= 32):
        long, at = _stripes8(at, size, seed)
        h = select(size >= 32, long, h)
        word = words_at(at, rest >= 8)
    h = h + size
    more = rest >= 8
    while bits(more):
        h = select(more, _word_step(h, word), h)
        rest = select(more, rest - 8, rest)
        more = rest >= 8
        if bits(more):
            at = at + 8
            word = words_at(at, more)
    if bits(rest > 0):
        h = _last_bytes8(h, select(size < 8, first, last >> (u64x8(64) - (rest << 3))), rest)
    h = (h ^ (h >> 33)) * P2
    h = (h ^ (h >> 29)) * P3
    return h ^ (h >> 32)


@inline
def _are_digits8(text):
    below, above = text - ZEROS, text + np.uint64(0x4646464646464646)
    return ((below | above) & np.uint64(0x8080808080808080)) == 0


@inline
def _number8(text):
    """The value of eight digits, the first one in the lowest byte: of pairs, then of fours."""
    pairs = text - ZEROS
    pairs = pairs * 10 + (pairs >> 8)
    few = np.uint64(0x000000FF000000FF)
    high = (pairs & few) * np.uint64(0x000F424000000064)
    return (high + ((pairs >> 16) & few) * np.uint64(0x0000271000000001)) >> 32


@inline
def _numbers8(maybe, size, first, last, key):
    """Hashes of keys of 1 to 16 digits; which keys they are; which others `_decimal` must read."""
    digit = first & 255
    missing = (u64x8(8) - size) << 3
    low = select(size < 8, first << missing | (u64x8(ZEROS) >> (size << 3)), last)
    plain = _are_digits8(low) & (size <= 16)
    value = _number8(low)
    if bits(maybe & (size > 8)):
        missing = (u64x8(16) - size) << 3
        high = first << missing | (u64x8(ZEROS) >> 8) >> ((size - 9) << 3)
        high = select(size > 8, high, u64x8(ZEROS))
        plain = plain & _are_digits8(high)
        value = value + _number8(high) * np.uint64(10**8)
    number = maybe & plain & ((digit != ZERO) | (size == 1))
    hard = (size > 16) | (digit == MINUS) | (low >> 48 == POINT_ZERO)
    return mix(value ^ key), number, maybe & hard


@inline
def _texts8(at, size, seed, key):
    """Hashes of eight keys, and the lanes that `_decimal` must read."""
    first = last = u64x8(0)
    if bits(size < 32):
        first = _first_word8(at, size)
    if bits(((size & 7) > 0) | (size <= LONGEST)):
        last = words_at(at + size - 8, size >= 8)
    digit = first & 255
    maybe = (size <= LONGEST) & (digit <= NINE) & ((digit >= ZERO) | (digit == MINUS))
    hashes, number, hard = u64x8(0), maybe, maybe
    if bits(maybe):
        hashes, number, hard = _numbers8(maybe, size, first, last, key)
    if bits(~number):
        hashes = select(number, hashes, _xxh64_8(at, size, first, last, seed))
    return hashes, hard


def _vectors_are_wide():
    """Whether the CPU has vectors of 256 bits: shorter ones multiply no faster than it does."""
    try:
        return bool(binding.get_host_cpu_features().get("avx2"))
    except RuntimeError:  # LLVM does not know this system's features
        return False


BY_LANES = _vectors_are_wide()


@kernel
def _texts(keys, count, seed):
    """keys[2, i] = the hash of the keys[1, i] bytes at the address keys[0, i], for i < count.

    Rows of keys have room for whole lanes, of which those behind the last key are overwritten.
    """
    key = mix(seed + GOLDEN)
    if not BY_LANES:
        for i in range(count):
            keys[2, i] = of_bytes(keys[0, i], keys[1, i], seed, key)
        return
    for i in range(count, count + LANES):
        keys[1, i] = np.uint64(0)
    for i in range(0, count, LANES):
        hashes, hard = _texts8(load(keys, i), load(keys, ROOM + i), seed, key)
        store(keys, 2 * ROOM + i, hashes)
        left = bits(hard)
        while left:
            j = i + count_trailing_zeros(left)
            number, value, negative = _decimal(keys[0, j], keys[1, j])
            if number:
                value = np.uint64(0) - value if negative else value
                keys[2, j] = mix(value ^ key) if negative else of_unsigned(value, key)
            left &= left - np.uint64(1)


@kernel
def strings(data, offsets, seed, keys, out):
    """out[i] = the hash of the bytes offsets[i] to offsets[i + 1] after the address data.

    keys: scratch of shape (3, ROOM), as in `views`; the code of an allocation here loads slowly.
    """
    for first in range(0, out.size, MANY):
        count = min(MANY, out.size - first)
        for i in range(count):
            start = np.uint64(offsets[first + i])
            keys[0, i] = data + start
            keys[1, i] = np.uint64(offsets[first + i + 1]) - start
        _texts(keys, count, seed)
        for i in range(count):
            out[first + i] = keys[2, i]


@kernel
def views(data, buffers, seed, keys, out):
    """out[i] = the hash of Arrow view i of 16 bytes at data: short ones inline, long in buffers."""
    for first in range(0, out.size, MANY):
        count = min(MANY, out.size - first)
        for i in range(count):
            view = data + np.uint64(16 * (first + i))
            size, at = word32_at(view), view + np.uint64(4)
            if size > np.uint64(12):
                at = buffers[word32_at(view + np.uint64(8))] + word32_at(view + np.uint64(12))
            keys[0, i], keys[1, i] = at, size
        _texts(keys, count, seed)
        for i in range(count):
            out[first + i] = keys[2, i]

"""Decompression of Snappy blocks, at raw addresses: faster than Arrow's, which Parquet waits for.

A block is its decompressed size, then elements: literal bytes, or a copy of earlier output. Sixteen
bytes are moved at a time wherever that stays inside both buffers; near their ends, one at a time.
Nothing outside the buffers is read or written, whatever the block holds.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sfumato.kernels.hash import byte_at, word32_at
from sfumato.kernels.jit import inline, kernel

__all__ = ["decompress"]


def _copier(size):
    @intrinsic
    def copy(typing, to, source):
        def lower(context, builder, signature, arguments):
            row = ir.VectorType(ir.IntType(8), size)
            to, source = (builder.inttoptr(each, row.as_pointer()) for each in arguments)
            builder.store(builder.load(source, align=1, typ=row), to, align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), lower

    return copy


_copy1, _copy16, _copy64 = _copier(1), _copier(16), _copier(64)
ONE, TWO, THREE, FOUR, BYTE = (np.uint64(each) for each in (1, 2, 3, 4, 8))
SIXTEEN, LONGEST, EXTENDED = np.uint64(16), np.uint64(64), np.uint64(60)
MARGIN = 96  # bytes from the end up to which an element may be moved together with what follows


@inline
def _number(at, count):
    number = np.uint64(0)
    for i in range(np.int64(count)):
        number |= byte_at(at + np.uint64(i)) << (BYTE * np.uint64(i))
    return number


@inline
def _size(here, end):
    """The decompressed size, in base 128, and where the elements begin; 0 if it is cut."""
    number, shift = np.uint64(0), np.uint64(0)
    while here < end and shift < np.uint64(35):
        byte = byte_at(here)
        here += ONE
        number |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return number, here
        shift += np.uint64(7)
    return np.uint64(0), here


@inline
def _copied(tag, word):
    """Length and offset of a copy: its tag, and the bytes behind it as far as they belong to it."""
    if tag & THREE == ONE:
        return FOUR + ((tag >> TWO) & np.uint64(7)), (tag >> np.uint64(5)) << BYTE | word
    return (tag >> TWO) + ONE, word


@inline
def _literal(here, end):
    """Length of the literal with its tag here, and where it begins; too long if it is cut."""
    length = byte_at(here) >> TWO
    here += ONE
    if length >= EXTENDED:
        count = length - EXTENDED + ONE
        if end - here < count:
            return np.uint64(2**63), here
        length = _number(here, count)
        here += count
    return length + ONE, here


@inline
def _move(to, source, length):
    i = np.uint64(0)
    while i + LONGEST <= length and to - source >= LONGEST:  # wraps where the source is behind
        _copy64(to + i, source + i)
        i += LONGEST
    while i < length:
        _copy1(to + i, source + i)
        i += ONE


@kernel
def decompress(source, stored, to, size):
    """Decompress the `stored` bytes at an address into `size` bytes at another; 0, or -1."""
    end, last = source + np.uint64(stored), to + np.uint64(size)
    announced, here = _size(source, end)
    if announced != np.uint64(size):
        return -1
    far, out = np.uint64(MARGIN), to
    while here < end:
        tag = byte_at(here)
        roomy = end - here > far and last - out > far
        if tag & THREE == np.uint64(0):
            length = (tag >> TWO) + ONE
            if roomy and length <= EXTENDED:
                if length <= SIXTEEN:
                    _copy16(out, here + ONE)
                else:
                    _copy64(out, here + ONE)
                here += ONE
            else:
                length, here = _literal(here, end)
                if end - here < length or last - out < length:
                    return -1
                _move(out, here, length)
            here += length
        else:
            kind = tag & THREE
            count = FOUR if kind == THREE else kind
            if end - here <= count:
                return -1
            if roomy:
                word = word32_at(here + ONE) & ((ONE << (BYTE * count)) - ONE)
            else:
                word = _number(here + ONE, count)
            length, offset = _copied(tag, word)
            if offset == np.uint64(0) or offset > out - to or last - out < length:
                return -1
            if roomy and offset >= SIXTEEN:
                _copy16(out, out - offset)
                if length > SIXTEEN:
                    for i in range(16, 64, 16):
                        _copy16(out + np.uint64(i), out + np.uint64(i) - offset)
            else:
                _move(out, out - offset, length)
            here += ONE + count
        out += length
    return 0 if out == last else -1

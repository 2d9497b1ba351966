"""Decompression of Snappy blocks, at raw addresses: faster than Arrow's, which Parquet waits for.

A block is its decompressed size, then elements: literal bytes, or a copy of earlier output. Sixteen
bytes are moved at a time wherever that stays inside both buffers; near their ends, one at a time.
Nothing outside the buffers is read or written, whatever the block holds.
"""

import numpy as np
from llvmlite import ir
from numba import types

from sfumato.kernels.hash import byte_at, word32_at
from sfumato.kernels.jit import inline, intrinsic, kernel

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
ZERO, ONE, TWO, THREE, FOUR, BYTE = (np.uint64(each) for each in (0, 1, 2, 3, 4, 8))
SIXTEEN, LONGEST, EXTENDED = np.uint64(16), np.uint64(64), np.uint64(60)
MARGIN = 192  # bytes from an end up to which two elements may be moved with what follows them


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


def _copies_by_tag():
    """Length of a copy, and bits 8 to 10 of its offset where the tag has them, by its tag."""
    tags = np.arange(256)
    near = 4 + (tags >> 2 & 7) | tags >> 5 << 8
    return np.where(tags & 3 == 1, near, (tags >> 2) + 1).astype(np.uint64)


COPIES = _copies_by_tag()  # a branch on the tag would often be predicted wrongly


@inline
def _copied(tag, word, count):
    """Length and offset of a copy: its tag, and a word whose first `count` bytes belong to it."""
    entry = COPIES[tag]
    low = word & ((ONE << (BYTE * count)) - ONE)
    return entry & np.uint64(255), low | (entry & np.uint64(0x700))


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


@inline
def _elements(here, end, to, out, last):
    """Decompress elements while both ends are far; returns what `_element` returns.

    It stops before literals above 60 bytes and offsets of 4 bytes. A copy follows most literals.
    """
    far = np.uint64(MARGIN)
    while end - here > far and last - out > far:
        tag = byte_at(here)
        if tag & THREE == ZERO:
            length = (tag >> TWO) + ONE
            if length <= SIXTEEN:
                _copy16(out, here + ONE)
            elif length <= EXTENDED:
                _copy64(out, here + ONE)
            else:
                break
            here += ONE + length
            out += length
            tag = byte_at(here)
        kind = tag & THREE
        if kind == ZERO:
            continue
        if kind == THREE:
            break
        length, offset = _copied(tag, word32_at(here + ONE), kind)
        if offset - ONE >= out - to:  # also if the offset is 0
            return here, last + ONE
        if offset < SIXTEEN:
            _move(out, out - offset, length)
        else:
            _copy16(out, out - offset)
            if length > SIXTEEN:
                for i in range(16, 64, 16):
                    _copy16(out + np.uint64(i), out + np.uint64(i) - offset)
        here += ONE + kind
        out += length
    return here, out


@inline
def _element(here, end, to, out, last):
    """Decompress one; where input and output continue, the latter behind its end if damaged."""
    tag = byte_at(here)
    kind = tag & THREE
    if kind == ZERO:
        length, here = _literal(here, end)
        if end - here < length or last - out < length:
            return here, last + ONE
        _move(out, here, length)
        return here + length, out + length
    count = FOUR if kind == THREE else kind
    if end - here <= count:
        return here, last + ONE
    length, offset = _copied(tag, _number(here + ONE, count), count)
    if offset - ONE >= out - to or last - out < length:
        return here, last + ONE
    _move(out, out - offset, length)
    return here + ONE + count, out + length


@kernel
def decompress(source, stored, to, size):
    """Decompress the `stored` bytes at an address into `size` bytes at another; 0, or -1."""
    end, last = source + np.uint64(stored), to + np.uint64(size)
    announced, here = _size(source, end)
    if announced != np.uint64(size):
        return -1
    out = to
    while here < end and out <= last:
        here, out = _elements(here, end, to, out, last)
        if out <= last:
            here, out = _element(here, end, to, out, last)
    return 0 if out == last else -1

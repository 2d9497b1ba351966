"""Pages of Parquet files: their headers, texts as Arrow views, and runs of dictionary indices.

Nothing outside a page is read: each kernel returns -1 if the page ends before its values do.
"""

import numpy as np

from sfumato.kernels.hash import byte_at, word32_at, word64_at
from sfumato.kernels.jit import inline, kernel

__all__ = ["indices", "page_header", "text_views"]

INLINE = np.uint64(12)  # bytes of a text that its view holds itself
FOUR, EIGHT, SHIFT = np.uint64(4), np.uint64(8), np.uint64(32)


@inline
def _bytes_at(at, count, end):
    """The `count` bytes from `at` on, at most 8, as a little-endian number."""
    if at + EIGHT <= end:
        word = word64_at(at)
        return word & ((np.uint64(1) << (count * EIGHT)) - np.uint64(1)) if count < EIGHT else word
    word = np.uint64(0)
    for i in range(np.int64(count)):
        word |= byte_at(at + np.uint64(i)) << np.uint64(8 * i)
    return word


@kernel
def text_views(page, at, size, buffer, out):
    """out[i] = the Arrow view of the next text, each behind its length; where the next one begins.

    The page has `size` bytes from its address on; texts begin at offset `at`. Views of long ones
    name it as data buffer number `buffer`.
    """
    end, here = page + np.uint64(size), page + np.uint64(at)
    for i in range(out.shape[0]):
        if end - here < FOUR:
            return -1
        length = word32_at(here)
        here += FOUR
        if end - here < length:
            return -1
        first = _bytes_at(here, min(length, FOUR), end)
        out[i, 0] = length | first << SHIFT
        if length > INLINE:
            out[i, 1] = np.uint64(buffer) | (here - page) << SHIFT
        elif length > FOUR:
            out[i, 1] = _bytes_at(here + FOUR, length - FOUR, end)
        else:
            out[i, 1] = np.uint64(0)
        here += length
    return np.int64(here - page)


@inline
def _header(here, end):
    """The number in base 128 that begins here, and where it ends; behind the end if it is cut."""
    number, shift = np.uint64(0), np.uint64(0)
    while here < end and shift < np.uint64(64):
        byte = byte_at(here)
        here += np.uint64(1)
        number |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return number, here
        shift += np.uint64(7)
    return np.uint64(0), end + np.uint64(1)


@kernel
def page_header(page, size, outer, out):
    """out[0, f] = integer field f of the header; out[s, f] = field f of the struct in field s.

    A header is a struct of Thrift's compact protocol; structs inside structs are noted in `outer`.
    Returns its size; -1 if it is longer than the `size` bytes at the address, has more structs
    inside each other, or fields of other types than page headers have.
    """
    here, end = page, page + np.uint64(size)
    depth, field = 0, np.int64(0)
    while here < end:
        kind = byte_at(here)
        here += np.uint64(1)
        if kind == np.uint64(0):
            depth -= 1
            if depth < 0:
                return np.int64(here - page)
            field = outer[depth]
            continue
        if kind >> FOUR:
            field += np.int64(kind >> FOUR)
        else:
            number, here = _header(here, end)
            field = _signed(number)
        kind, number = kind & np.uint64(15), np.uint64(0)
        if kind == np.uint64(12):
            if depth == outer.size:
                return -1
            outer[depth], field = field, np.int64(0)
            depth += 1
            continue
        value = np.int64(kind == np.uint64(1))
        if kind == FOUR or kind == np.uint64(5) or kind == np.uint64(6):
            number, here = _header(here, end)
            value = _signed(number)
        elif kind == EIGHT:
            number, here = _header(here, end)
            if here > end or end - here < number:
                return -1
            here += number
        elif kind == np.uint64(3):
            here += np.uint64(1)
        elif kind == np.uint64(7):
            here += EIGHT
        elif kind > np.uint64(2):
            return -1
        row = outer[0] if depth else np.int64(0)
        if depth < 2 and 0 <= row < out.shape[0] and 0 < field < out.shape[1]:
            out[row, field] = value
    return -1


@inline
def _signed(number):
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1))


@inline
def _unpack(page, size, bit, bits, out, begin, end):
    """out[begin:end] = numbers of `bits` bits from this bit of the page on, which has them all."""
    last = (np.uint64(1) << bits) - np.uint64(1)
    readable = (8 * size - 57 - np.int64(bit)) // np.int64(bits) + 1  # as words inside the page
    middle = begin + max(min(end - begin, readable), 0)
    for i in range(begin, middle):
        word = word64_at(page + (bit >> np.uint64(3)))
        out[i] = np.int32(word >> (bit & np.uint64(7)) & last)
        bit += bits
    for i in range(middle, end):
        here, stop = page + (bit >> np.uint64(3)), page + np.uint64(size)
        word = _bytes_at(here, min(EIGHT, stop - here), stop)
        out[i] = np.int32(word >> (bit & np.uint64(7)) & last)
        bit += bits
    return bit


@kernel
def indices(page, size, width, words, state, out):
    """out = the next numbers of `width` bits, in runs of one number or of packed ones; 0, or -1.

    state: the offset behind the current run, how many numbers are left of it, the bit of the next
    packed one (-1 if the run repeats a number), and the repeated number. All must be below `words`.
    """
    end, bits = page + np.uint64(size), np.uint64(width)
    done = 0
    while done < out.size:
        if state[1] == 0:
            header, here = _header(page + np.uint64(state[0]), end)
            count, repeats = np.int64(header >> np.uint64(1)), not header & np.uint64(1)
            stored = np.int64((bits + np.uint64(7)) >> np.uint64(3)) if repeats else count * width
            if here > end or not 0 < count < 2**31 or np.int64(end - here) < stored:
                return -1
            state[1] = count if repeats else 8 * count
            state[2] = -1 if repeats else 8 * np.int64(here - page)
            state[3] = np.int64(_bytes_at(here, np.uint64(stored), end)) if repeats else 0
            state[0] = np.int64(here - page) + stored
        count = min(state[1], out.size - done)
        if state[2] < 0:
            for i in range(done, done + count):
                out[i] = state[3]
        else:
            bit = np.uint64(state[2])
            state[2] = np.int64(_unpack(page, size, bit, bits, out, done, done + count))
        state[1] -= count
        done += count
    largest = np.uint32(0)
    for i in range(out.size):
        largest = max(largest, np.uint32(out[i]))
    return 0 if largest < words else -1

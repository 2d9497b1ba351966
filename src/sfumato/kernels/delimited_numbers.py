"""Delimited lines of plain numbers, parsed without a detour through texts."""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["parse"]

NEWLINE, RETURN, QUOTE, MINUS, POINT, ZERO = 10, 13, 34, 45, 46, 48
DIGITS = 19  # of a number, at most: together they stay below 2**64
LARGEST = 1 << 63
MANTISSA = 1 << 53  # below it a quotient by a power of ten up to 10**22 is rounded only once


@inline
def _digits(data, at, number):
    """The number with the digits from `at` on appended, and where they end."""
    while np.uint8(data[at] - ZERO) < 10:
        number = number * np.uint64(10) + np.uint64(data[at] - ZERO)
        at += 1
    return number, at


@inline
def _delimits(data, at, delimiter):
    """Whether the delimiter stands here."""
    j = 0
    while j < delimiter.size and data[at + j] == delimiter[j]:
        j += 1
    return j == delimiter.size


@inline
def _skipped(data, at, delimiter):
    """Where a field ends that is not read; at what is not plain, if that comes first."""
    while not (data[at] == delimiter[0] and _delimits(data, at, delimiter)):
        if data[at] == NEWLINE or data[at] == RETURN or data[at] == QUOTE or data[at] >= 128:
            break
        at += 1
    return at


@kernel
def parse(data, delimiter, carriage, columns, canonical, values, scales):
    """values[k, row] / 10**scales[k, row] = the field of this row; return how many rows are plain.

    data: complete lines, ended by "\\n" or, if `carriage`, all by "\\r\\n". columns[c]: where field
    c is stored, -1 where it is skipped. canonical[k]: only integers without leading zeros are
    plain. Any other number, quote, byte beyond ASCII or wrong number of fields ends the reading.
    """
    at = 0
    for row in range(values.shape[1]):
        for field in range(columns.size):
            slot = columns[field]
            if slot < 0:
                at = _skipped(data, at, delimiter)
            else:
                negative = data[at] == MINUS
                at += negative
                start = at
                number, at = _digits(data, at, np.uint64(0))
                digits, scale = at - start, 0
                if data[at] == POINT and digits:
                    number, end = _digits(data, at + 1, number)
                    scale = end - at - 1
                    at = end
                    if scale == 0 or canonical[slot] or number >= np.uint64(MANTISSA):
                        return row
                if digits == 0 or digits + scale > DIGITS or number >= np.uint64(LARGEST):
                    return row
                if canonical[slot] and data[start] == ZERO and digits > 1:
                    return row
                if negative and number == np.uint64(0):
                    return row
                values[slot, row] = -np.int64(number) if negative else np.int64(number)
                scales[slot, row] = scale
            if field < columns.size - 1:
                if not _delimits(data, at, delimiter):
                    return row
                at += delimiter.size
        if carriage:
            if data[at] != RETURN:
                return row
            at += 1
        if data[at] != NEWLINE:
            return row
        at += 1
    return values.shape[1]

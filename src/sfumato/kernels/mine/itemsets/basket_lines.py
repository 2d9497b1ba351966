"""Integers of text: one basket per line, or baskets that end with -1."""

import numpy as np

from sfumato.kernels.jit import kernel

__all__ = ["parse"]

MINUS, NEWLINE, COMMA, SEMICOLON, BLANK, TAB, RETURN = 45, 10, 44, 59, 32, 9, 13
DIGITS = 18  # of the longest integer, so that none wraps


@kernel
def parse(data, marked, ids, offsets):
    """Read integers; returns how many, how many baskets, and where something else is, or -1.

    Blanks, commas and semicolons separate; empty fields are nothing. A line is a basket or, if
    `marked`, all up to -1 is. What follows the last end is left to the caller: offsets[baskets] is
    where its ids begin.
    """
    found, baskets, at = 0, 0, 0
    offsets[0] = 0
    while at < data.size:
        byte = data[at]
        if byte == NEWLINE and not marked:
            baskets += 1
            offsets[baskets] = found
            at += 1
        elif byte in (BLANK, COMMA, TAB, RETURN, SEMICOLON, NEWLINE):
            at += 1
        else:
            start, value = at, 0
            at += byte == MINUS
            first = at
            while at < data.size and 48 <= data[at] <= 57:
                value = 10 * value + (np.int64(data[at]) - 48)
                at += 1
            if at == first or at - first > DIGITS:
                return found, baskets, start
            if at < data.size and data[at] not in (
                BLANK,
                COMMA,
                TAB,
                RETURN,
                SEMICOLON,
                NEWLINE,
            ):
                return found, baskets, start
            if marked and byte == MINUS and value == 1:
                baskets += 1
                offsets[baskets] = found
            else:
                ids[found] = -value if byte == MINUS else value
                found += 1
    return found, baskets, -1

"""Lines of reports in the one form that is written: text to columns and columns to text.

prefix, cohort in digits, `middle`, payload in hex, `between`, id in hex, `end`, line feed. Any
other line is left to a slower reader, with its place, so that both together read all.
"""

import numpy as np

from sfumato.kernels.jit import inline, kernel

__all__ = ["format_lines", "parse_lines"]

LINE_FEED = np.uint8(10)


@inline
def _same(text, at, part):
    different = np.uint8(0)
    for i in range(part.size):
        different |= text[at + i] ^ part[i]
    return different == 0


@inline
def _read_hex(text, at, values, row):
    """Fill the row from two digits a byte by `values`, where no digit is 16 or more; True if so."""
    bits = np.uint8(0)
    for i in range(row.size):
        high, low = values[text[at + 2 * i]], values[text[at + 2 * i + 1]]
        bits |= high | low
        row[i] = high << np.uint8(4) | low & np.uint8(15)
    return bits < 16


@inline
def _cohort(text, at, most):
    """The number at `at` and where it ends; -1 if there is none or it begins with a needless 0."""
    number, end = np.int64(0), at
    while end - at < most and np.uint8(48) <= text[end] <= np.uint8(57):
        number = 10 * number + np.int64(text[end]) - 48
        end += 1
    if end == at or (text[at] == np.uint8(48) and end > at + 1):
        return np.int64(-1), end
    return number, end


@inline
def _line_end(text, at):
    while text[at] != LINE_FEED:
        at += 1
    return at


@kernel
def parse_lines(text, parts, values, count, digits, cohorts, payload, ids, odd, state):
    """Read lines from state[0] on, until the text or the positions for odd lines run out.

    text ends in a line feed at state[3] - 1; zeros follow, as many as a line is long. state[1] and
    state[2] tell how many rows were read and how many lines are odd; odd[i] holds where odd line i
    begins and ends and how many rows were read before it.
    """
    prefix, middle, between, end = parts
    at, rows, others, size = state[0], 0, 0, state[3]
    while at < size and rows + others < odd.shape[0]:
        good = _same(text, at, prefix)
        next_at = at
        if good:
            cohort, next_at = _cohort(text, at + prefix.size, digits)
            good = 0 <= cohort < count and _same(text, next_at, middle)
        if good:
            next_at += middle.size
            good = _read_hex(text, next_at, values, payload[rows])
            next_at += 2 * payload.shape[1]
            good = good and _same(text, next_at, between)
        if good:
            next_at += between.size
            good = _read_hex(text, next_at, values, ids[rows])
            next_at += 2 * ids.shape[1]
            good = good and _same(text, next_at, end)
        if good:
            cohorts[rows] = cohort
            rows += 1
            at = next_at + end.size
        else:
            stop = _line_end(text, at)
            if stop > at:
                odd[others, 0], odd[others, 1], odd[others, 2] = at, stop, rows
                others += 1
            at = stop + 1
    state[0], state[1], state[2] = at, rows, others


@inline
def _write(out, at, part):
    for i in range(part.size):
        out[at + i] = part[i]
    return at + part.size


@inline
def _write_hex(out, at, row, digits):
    for i in range(row.size):
        out[at] = digits[row[i] >> 4]
        out[at + 1] = digits[row[i] & 15]
        at += 2
    return at


@inline
def _write_number(out, at, number):
    if number < 0:
        out[at] = np.uint8(45)
        at, number = at + 1, -number
    unit = np.int64(1)
    while unit * 10 <= number:
        unit *= 10
    while unit > 0:
        out[at] = np.uint8(48 + number // unit % 10)
        at, unit = at + 1, unit // 10
    return at


@kernel
def format_lines(parts, digits, cohorts, payload, ids, out, size):
    """size[0] = how many bytes of `out` the lines fill."""
    prefix, middle, between, end = parts
    at = 0
    for r in range(cohorts.size):
        at = _write(out, at, prefix)
        at = _write_number(out, at, np.int64(cohorts[r]))
        at = _write(out, at, middle)
        at = _write_hex(out, at, payload[r], digits)
        at = _write(out, at, between)
        at = _write_hex(out, at, ids[r], digits)
        at = _write(out, at, end)
    size[0] = at

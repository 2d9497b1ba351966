"""Whole numbers as places in a list of those that occur, in the order of first appearance."""

import numpy as np

from sfumato.kernels.coding import code

__all__ = ["coded_integers"]

FIRST = 1 << 10  # slots of the table at the start


def coded_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The place of each value, as int32, and the values that occur.

    Parameters: values, one column of whole numbers, fewer than 2**31 different ones.

    >>> coded_integers(np.array([30, 10, 30]))
    (array([0, 1, 0], dtype=int32), array([30, 10]))
    """
    places, slots, done, known = np.empty(values.size, np.int32), FIRST, 0, 0
    distinct = np.empty(0, values.dtype)
    while True:
        table = np.empty(slots, values.dtype), np.full(slots, -1, np.int32)
        grown = np.empty(slots // 2, values.dtype)
        again = np.empty(known, np.int32)
        code(distinct[:known], 0, *table, 0, grown, again)
        distinct = grown
        done, known = code(values, done, *table, known, distinct, places)
        if done == values.size:
            return places, distinct[:known].copy()
        slots *= 4

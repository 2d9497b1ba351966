"""Rows of an index, written to all their columns at once."""

import numpy as np

from sfumato.kernels.hash_tables import put
from sfumato.kernels.jit import kernel
from sfumato.kernels.retrieve.hamming_scan import BLOCK

__all__ = ["write"]


@kernel
def write(
    rows, ids, words, factors, shifts, id_column, blocks, factor_column, shift_column, bits, keys,
    values,
):  # fmt: skip
    """Write entry i of ids, words, factors and shifts to row rows[i]; return how many ids are new.

    Word w of row r is blocks[r // BLOCK, w, r % BLOCK], bit r of `bits` says that it is there, and
    (keys, values) is the table of `hash_tables`. Factors, shifts, bits and table may be empty.
    """
    for i in range(rows.size):
        row = rows[i]
        id_column[row] = ids[i]
        for w in range(words.shape[1]):
            blocks[row // BLOCK, w, row % BLOCK] = words[i, w]
        if factors.size:
            factor_column[row] = factors[i]
        if shifts.size:
            shift_column[row] = shifts[i]
        if bits.size:
            bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    return put(ids, rows, keys, values) if keys.size else 0

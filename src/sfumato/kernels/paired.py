"""How likely each candidate makes each report, a row a report: what pairs of reports are made of.

A report of cohort j is base[j, a] powers[ones] likely under candidate a, where ones is how many
cells of the candidate's own set members[j, a] it marks; a cell below 0 is none.
"""

import numpy as np

from ._jit import kernel

__all__ = ["of_bits", "of_symbols", "weighted_marks"]


@kernel
def of_bits(payload, cohorts, members, base, powers, out):
    """Cell i of report r is bit i & 7 of payload[r, i >> 3]."""
    candidates, size = members.shape[1:]
    for r in range(payload.shape[0]):
        cohort = cohorts[r]
        for a in range(candidates):
            ones = 0
            for s in range(size):
                cell = members[cohort, a, s]
                if cell >= 0:
                    ones += (payload[r, cell >> 3] >> (cell & 7)) & 1
            out[r, a] = base[cohort, a] * powers[ones]


@kernel
def of_symbols(symbols, cohorts, members, base, powers, out):
    """Report r marks the cell symbols[r] alone."""
    candidates, size = members.shape[1:]
    for r in range(symbols.size):
        cohort, symbol = cohorts[r], symbols[r]
        for a in range(candidates):
            ones = 0
            for s in range(size):
                if members[cohort, a, s] == symbol:
                    ones = 1
            out[r, a] = base[cohort, a] * powers[ones]


@kernel
def weighted_marks(payload, weights, out):
    """out[r] = sum of weights[i] over the cells i that report r marks."""
    for r in range(payload.shape[0]):
        total = 0.0
        for octet in range(payload.shape[1]):
            left = np.uint32(payload[r, octet])
            at = 8 * octet
            while left:
                if left & np.uint32(1):
                    total += weights[at]
                left >>= np.uint32(1)
                at += 1
        out[r] = total

"""Histograms along lines: points shared between the two nearest bins, and curves read between.

Positions have a row for each line and a column for each point, in bins from 0.
"""

import numpy as np

from ._jit import kernel

__all__ = ["read", "share"]


@kernel
def share(positions, weights, unit, table):
    """table[r, b] += (unit - m) weight and table[r, b + 1] += m weight, m the share past bin b."""
    for r in range(positions.shape[0]):
        row, cells = positions[r], table[r]
        for i in range(row.size):
            b = np.int64(row[i])
            m = np.int64((row[i] - b) * unit + 0.5)
            cells[b] += (unit - m) * weights[i]
            cells[b + 1] += m * weights[i]


@kernel
def read(positions, fine, curves, out):
    """out[i] += curves[r] at fine positions[r, i], linear between its points, r ascending."""
    for r in range(positions.shape[0]):
        row, curve = positions[r], curves[r]
        for i in range(row.size):
            place = row[i] * fine
            b = np.int64(place)
            part = place - b
            out[i] += curve[b] + part * (curve[b + 1] - curve[b])

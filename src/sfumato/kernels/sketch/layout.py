"""How minima, panels and codes lie in memory, for kernels and those who fill their arrays.

Needs no compiler.
"""

import numpy as np

__all__ = ["EMPTY", "HASHES", "INTEGERS", "PANEL", "PLACE_BITS", "ROWS", "STEP", "UNSIGNED"]

HASHES, INTEGERS, UNSIGNED = range(3)  # what tokens are

EMPTY = np.uint32(2**32 - 1)  # the minimum of nothing
STEP = 32  # coefficients come in multiples of this: two vectors hide the latency, more gain nothing
ROWS = 16  # of a block of minima, one lane each
PANEL = 16  # entries of one panel: two vectors of eight float64, or one of sixteen float32
PLACE_BITS = 10  # binary digits of a position between two nodes

"""How far the count of a rare value will be off, for each kind of report, before any arrives.

Variances are per report and of the best linear estimate from the counts; the value's own share is
taken as small, the others as spread over the cells, and every value as one of the dictionary.
"""

import math
from typing import Any

__all__ = ["blocks_variance", "cells_variance", "hashed_variance", "variance"]


def variance(scheme: Any, dictionary: int) -> float:
    """The variance, per report, of the estimated count of one rare value of so many."""
    high, low = float(scheme.high), float(scheme.low)
    if getattr(scheme, "blocks", None):
        return blocks_variance(high, low, scheme.cells, scheme.blocks, dictionary)
    if scheme.domain is not None:
        return cells_variance(high, low)
    marks = {"symbol": 1, "subset": getattr(scheme, "chosen", None)}.get(scheme.kind)
    hashes = getattr(scheme, "hashes", 1)
    return hashed_variance(high, low, scheme.cells, scheme.cohorts, dictionary, hashes, marks)


def cells_variance(high: float, low: float) -> float:
    """Every value has a cell of its own: (count - n low) / (high - low)."""
    return low * (1 - low) / (high - low) ** 2


def hashed_variance(
    high: float,
    low: float,
    cells: int,
    cohorts: int,
    dictionary: int,
    hashes: int = 1,
    marks: int | None = None,
) -> float:
    """Values share cells: `marks` of them in a report, or each for itself where that is None.

    A random set of cells tells 1 - hashes / cells of what one without the others would, and
    least squares spends one of the free counts on each value of the dictionary; infinite where
    there are too few counts to tell them apart.
    """
    signal = high - low
    mean = marks / cells if marks else low + signal * hashes / cells
    free = cohorts * (cells - 1 if marks else cells)
    if free <= dictionary:
        return math.inf
    told = signal**2 * hashes * (1 - hashes / cells)
    told *= 1 - 1 / cells if marks else 1  # the marks of a report have a fixed sum
    return mean * (1 - mean) / told / (1 - dictionary / free)


def blocks_variance(high: float, low: float, cells: int, blocks: int, dictionary: int) -> float:
    """Hadamard sets: half of one block each; two of one block share half their cells."""
    length, held = cells // blocks, dictionary / blocks
    return 4 * held / (held + 1) / (blocks * length**2 * (high - low) ** 2)

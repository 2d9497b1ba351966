"""Columns and tables of numbers as formulas take them: finite or not, but within their limits."""

import math
from typing import Any

import numpy as np

__all__ = ["within"]


def within(owner: str, name: str, values: Any, low: float, high: float = math.inf) -> np.ndarray:
    """Numbers as float64, refused unless all lie from low to high, both included.

    >>> within("flips", "share", [0, 0.5], 0, 1)
    array([0. , 0.5])
    """
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} must be numbers.") from None
    if not bool(((given >= low) & (given <= high)).all()):  # also false for what is no number
        top = f" to {high:g}" if high < math.inf else " up"
        raise ValueError(f"{owner}: {name} must be numbers from {low:g}{top}.")
    return given

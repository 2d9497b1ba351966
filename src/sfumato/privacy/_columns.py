"""Private numbers: checked as a whole, and refused without telling a value."""

from typing import Any

import numpy as np

from sfumato.hashing import KeyColumn

__all__ = ["LARGEST", "real_column", "whole_column", "whole_numbers"]

LARGEST = 2**62 - 1  # so that a number and its noise fit 64 bits


def whole_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Whole numbers as int64; those of 2**63 and more are stored as 2**63 - 1."""
    if isinstance(column, np.ndarray) and column.size == 0 and column.ndim == 1:
        return np.empty(0, np.int64)
    keys = KeyColumn(column, name=f"{owner}: {name}")
    if keys.kind == "text":
        raise TypeError(f"{owner}: {name} must be whole numbers, not text.")
    parts = [np.minimum(p.values, 2**63 - 1).astype(np.int64) for p in keys.pieces]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def real_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Finite real numbers as float64."""
    values = np.asarray(column)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise TypeError(f"{owner}: {name} must be one column of numbers, not {values.dtype}.")
    values = values.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"{owner}: {name} must be finite; row {int(finite.argmin())} is not.")
    return values


def whole_numbers(owner: str, value: Any, low: int = -LARGEST, high: int = LARGEST) -> np.ndarray:
    """The value as a fresh int64 array, all from low to high; a sentence without data if not."""
    wanted = f"{owner}: value must be whole numbers from {low} to {high}"
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{wanted}, in one regular array.") from None
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{wanted}, not of type {numbers.dtype}.")
    if numbers.size and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        raise ValueError(f"{wanted}, and some are not.")
    return numbers.astype(np.int64)

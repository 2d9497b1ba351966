"""Columns of private numbers: checked as a whole, and refused without telling a value."""

from typing import Any

import numpy as np

from sfumato.hashing import KeyColumn

__all__ = ["real_column", "whole_column"]


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

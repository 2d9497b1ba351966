"""Private numbers: checked as a whole, and refused without telling a value."""

from typing import Any

import numpy as np

from sfumato.hashing import KeyColumn
from sfumato.privacy.noise import ROOM

__all__ = ["LARGEST", "count_column", "plain", "real_column", "whole_column", "whole_numbers"]

LARGEST = ROOM - 1  # so that a number and its noise fit 64 bits


def plain(owner: str, name: str, value: Any) -> Any:
    """The value, unless it is a masked array, whose mask would be lost without a word."""
    if isinstance(value, np.ma.MaskedArray):
        wanted = "must not be a masked array; drop or fill what is masked"
        raise ValueError(f"{owner}: {name} {wanted}.")
    return value


def whole_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Whole numbers as int64; those of 2**63 and more are stored as 2**63 - 1."""
    if isinstance(plain(owner, name, column), np.ndarray) and column.shape == (0,):
        return np.empty(0, np.int64)
    try:
        keys = KeyColumn(column, name=f"{owner}: {name}", strict=True)
    except TypeError:
        raise ValueError(f"{owner}: {name} must be whole numbers, not {_kind(column)}.") from None
    if keys.kind == "text":
        raise ValueError(f"{owner}: {name} must be whole numbers, not text.")
    parts = [np.minimum(p.values, 2**63 - 1).astype(np.int64) for p in keys.pieces]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def count_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Counts as int64, each from 0 to 2**31 - 1, so that no sum of a column wraps."""
    counts = whole_column(owner, name, column)
    outside = (counts < 0) | (counts >= 2**31)
    if outside.any():
        at = int(outside.argmax())
        raise ValueError(f"{owner}: {name} must be from 0 to 2**31 - 1; row {at} is not.")
    return counts


def real_column(owner: str, name: str, column: Any) -> np.ndarray:
    """Finite real numbers as float64."""
    values = np.asarray(plain(owner, name, column))
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise ValueError(f"{owner}: {name} must be one column of numbers, not {_kind(column)}.")
    values = values.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"{owner}: {name} must be finite; row {int(finite.argmin())} is not.")
    return values


def whole_numbers(owner: str, value: Any, low: int = -LARGEST, high: int = LARGEST) -> np.ndarray:
    """The value as a fresh int64 array, all from low to high; a sentence without data if not."""
    wanted = f"{owner}: value must be whole numbers from {low} to {high}"
    plain(owner, "value", value)
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{wanted}, in one regular array.") from None
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{wanted}, not of type {numbers.dtype}.")
    if numbers.size and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        raise ValueError(f"{wanted}, and some are not.")
    return numbers.astype(np.int64)


def _kind(column: Any) -> str:
    """What to call the type of a column: that of its entries, or its own where they are fine."""
    try:
        entries = np.asarray(column)
    except (TypeError, ValueError, OverflowError):
        return "an irregular array"
    if entries.ndim != 1 or entries.dtype.kind in "iu":
        return type(column).__name__
    return {"U": "text", "S": "text", "O": "objects"}.get(entries.dtype.kind, str(entries.dtype))

"""Columns that go with the keys: weights, checked whole before a sketch changes."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data._columns import plain_numbers
from sfumato.privacy._columns import clipped_column
from sfumato.sketch._heaviest import WEIGHT

__all__ = ["real_weights", "whole_weights"]

LARGEST = 1e200


def whole_weights(
    owner: str, weights: Any, size: int, *, low: int = 0, clip: int | None = None
) -> np.ndarray | None:
    """Whole weights from low to 2**31 - 1, as many as keys; None stands for all ones.

    With `clip`, a public bound, each is read by itself and clipped to that size, and what is no
    number is 0: no weight is refused, and none changes another.
    """
    if clip is not None and weights is not None:
        most = WEIGHT.check(owner, "clip", clip)
        clipped = clipped_column(owner, "weights", weights, max(low, -most), most)
        _check_length(owner, clipped, size)
        return clipped if size else None
    column = _column(owner, weights, size)
    if column is None:
        return None
    if column.dtype.kind not in "iu":
        raise TypeError(f"{owner}: weights must be whole numbers, not {column.dtype}.")
    outside = (column < low) | (column >= 2**31)
    if outside.any():
        at = int(outside.argmax())
        raise ValueError(f"{owner}: weights must be from {low} to 2**31 - 1; row {at} is not.")
    return np.ascontiguousarray(column, np.int64)


def real_weights(owner: str, weights: Any, size: int) -> np.ndarray | None:
    """Real weights within 1e200, so that no sum overflows, as many as keys; None: all ones."""
    column = _column(owner, weights, size)
    if column is None:
        return None
    if column.dtype.kind not in "iuf":
        raise TypeError(f"{owner}: weights must be numbers, not {column.dtype}.")
    column = np.ascontiguousarray(column, np.float64)
    inside = np.abs(column) <= LARGEST
    if not inside.all():
        at = int((~inside).argmax())
        raise ValueError(f"{owner}: weights must be numbers within {LARGEST:g}; row {at} is not.")
    return column


def _arrow(owner: str, weights: Any) -> Any:
    try:
        if hasattr(weights, "__arrow_c_stream__"):
            return pa.chunked_array(weights)
        return pa.array(weights)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Arrow's own sentence quotes the value that does not fit.
        raise TypeError(f"{owner}: weights must be numbers of one type.") from None


def _column(owner: str, weights: Any, size: int) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, np.ma.MaskedArray):
        raise TypeError(f"{owner}: weights must not be masked; fill them first.")
    if isinstance(weights, list | tuple) or hasattr(weights, "__arrow_c_stream__"):
        weights = _arrow(owner, weights)
    if isinstance(weights, pa.Array | pa.ChunkedArray):
        if weights.null_count:
            at = weights.is_null().index(True).as_py()
            raise ValueError(f"{owner}: weights must be numbers; row {at} is null.")
        weights = weights.to_numpy(zero_copy_only=False)
    column = plain_numbers(weights)
    if size == column.size == 0:
        return None
    _check_length(owner, column, size)
    return column


def _check_length(owner: str, column: np.ndarray, size: int) -> None:
    if column.ndim != 1 or column.size != size:
        raise ValueError(
            f"{owner}: weights must be one for each of the {size} keys, not shape {column.shape}."
        )

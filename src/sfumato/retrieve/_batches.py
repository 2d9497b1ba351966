"""Rows of float32 in batches: checked, taken from a centre, made unit vectors."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels import sides, top
from sfumato.retrieve._frames import padded
from sfumato.sketch._rows import rows as any_rows

__all__ = ["Batch", "batches", "matrix"]


class Batch(NamedTuple):
    """Rows `part` of a matrix as unit vectors (or zeros) and lengths; filled up with zero rows."""

    part: slice
    unit: np.ndarray
    lengths: np.ndarray

    @property
    def size(self) -> int:
        """How many rows, without the filling."""
        return int(self.part.stop - self.part.start)


def matrix(owner: str, values: Any, dimension: int | None = None) -> np.ndarray:
    """A matrix of numbers, one vector a row, of the dimension asked for; arrays are not copied.

    >>> matrix("example", [[1, 2], [3, 4]], 2).shape
    (2, 2)
    """
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if not plain or values.dtype.kind != "f" or values.ndim != 2:
        values = any_rows(owner, values, dimension)
    if dimension is not None and values.shape[1] != dimension:
        raise ValueError(
            f"{owner}: rows must have {dimension} columns, as those it was fitted to, not "
            f"{values.shape[1]}."
        )
    return np.asarray(values)


def batches(
    owner: str, values: np.ndarray, centre: np.ndarray, height: int = 1024
) -> Iterator[Batch]:
    """The rows of a matrix from its first to its last, `height` at a time."""
    for start in range(0, len(values), height):
        with np.errstate(over="ignore"):  # what float32 cannot hold is found below
            rows = np.ascontiguousarray(values[start : start + height], np.float32)
        unit = np.zeros((padded(len(rows), top.ABREAST), len(centre)), np.float32)
        lengths = np.zeros(len(unit))
        sides.normalise(rows, centre, lengths, unit)
        if not np.isfinite(lengths).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise ValueError(
                f"{owner}: numbers must be finite in float32; row {start + row}, column {column} "
                f"is not. Drop or fill such rows first."
            )
        yield Batch(slice(start, start + len(rows)), unit, lengths)

"""Rows and weights of the estimators of clusters: checked, and never repeated in errors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.core.arrays import LARGEST
from sfumato.core.estimator_data import validate_data
from sfumato.core.ids import plain_numbers
from sfumato.errors import ParameterError

__all__ = [
    "check_clusters",
    "checked_points",
    "checked_weights",
    "unchanged_on_error",
]

WIDE = 1e18  # from here on squares of float32 would overflow


@contextlib.contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore all attributes of an estimator if the block raises or is interrupted."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def checked_points(estimator: Any, X: Any, *, reset: bool, narrow: bool = True) -> np.ndarray:
    """Contiguous rows of float64, or of float32 if they are and `narrow` allows it.

    `reset` takes over the columns of the table, otherwise they must be the fitted ones. ValueError
    where a cell is no finite number; it names estimator, row and column.
    """
    owner = type(estimator).__name__
    if isinstance(X, np.ma.MaskedArray):
        X = plain_numbers(X)  # scikit-learn would lose the mask
    try:
        points = validate_data(estimator, X, reset=reset, narrow=narrow, ensure_all_finite=False)
    except ValueError as error:
        if str(error).startswith("could not convert"):  # which quotes the cell
            raise ValueError(f"{owner}: X must be numbers; a column is text. Code it.") from None
        raise
    largest = max(float(points.max()), -float(points.min()))
    if not largest <= LARGEST:  # NaN fails, too
        row, column = np.argwhere(~(np.abs(points) <= LARGEST))[0]
        raise ValueError(
            f"{owner}: X must be finite and at most {LARGEST:g} in size; row {row}, column "
            f"{column} is NaN, inf or larger. Drop or fill such rows first."
        )
    return np.asarray(points, np.float64 if largest > WIDE else None)


def checked_weights(owner: str, sample_weight: Any, points: np.ndarray) -> np.ndarray | None:
    """Weights from 0 up in the dtype of the points; None for all ones."""
    if sample_weight is None:
        return None
    weights = plain_numbers(sample_weight)
    if weights.ndim == 0 and weights.dtype.kind in "iuf":
        weights = np.full(len(points), weights)
    if weights.shape != (len(points),):
        raise ValueError(
            f"{owner}: sample_weight must have one number per row, {len(points)}, not the shape "
            f"{weights.shape}."
        )
    if weights.dtype.kind not in "iuf" or not ((weights >= 0) & (weights < np.inf)).all():
        raise ValueError(f"{owner}: sample_weight must be finite numbers from 0 up.")
    if not weights.any():
        raise ValueError(f"{owner}: every sample_weight is zero; one must be above.")
    return weights.astype(points.dtype)


def check_clusters(owner: str, n_clusters: int, rows: int) -> None:
    """Refuse more clusters than rows."""
    if n_clusters > rows:
        problem = f"must be at most the number of rows, n_samples={rows}, not {n_clusters}."
        raise ParameterError.of(owner, "n_clusters", problem)

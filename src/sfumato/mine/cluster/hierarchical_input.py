"""Rows that estimators of clusters read, checked, and fits that leave the object as it was."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.validation import validate_data

from sfumato.core.arrays import LARGEST
from sfumato.errors import NotFittedError

__all__ = ["ClustersNotFittedError", "finite_rows", "unchanged_on_error"]


class ClustersNotFittedError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """Clusters were requested before `fit`; also scikit-learn's NotFittedError."""


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


def finite_rows(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """A table as float64; `reset` takes over its columns, otherwise they must be the fitted ones.

    Errors name estimator, row and column, never a value.
    """
    owner = type(estimator).__name__
    try:
        rows = validate_data(
            estimator, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite=False
        )
    except ValueError as error:
        if str(error).startswith("could not convert"):
            raise ValueError(f"{owner}: X must be numbers; a column is text. Code it.") from None
        raise
    if not (rows.min() >= -LARGEST and rows.max() <= LARGEST):  # NaN fails both
        row, column = np.argwhere(~(np.abs(rows) <= LARGEST))[0]
        raise ValueError(
            f"{owner}: X must be finite and at most {LARGEST:g} in size; row {row}, column "
            f"{column} is NaN, inf or larger. Drop or fill such rows first."
        )
    return np.asarray(rows)

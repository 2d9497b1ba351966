"""Data of estimators, checked as scikit-learn does it, which is loaded only for unusual data.

Each function has a short way for plain data: NumPy arrays and lists of numbers (or of labels) of
the right shape. Everything else, and so every refusal, goes to scikit-learn's function of that
name.
"""

from typing import Any

import numpy as np

__all__ = [
    "check_classification_targets",
    "check_feature_names",
    "column_or_1d",
    "target_numbers",
    "validate_data",
]

PLAIN = (np.ndarray, np.memmap, list, tuple)
TABLES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
NAMES = "feature_names_in_"


def validate_data(
    estimator: Any, X: Any, *, reset: bool, narrow: bool = False, ensure_all_finite: bool = True
) -> np.ndarray:
    """Rows as a contiguous table of float64, or with `narrow` of float32 where X has that type.

    With `reset` the estimator takes over number and names of the columns (`n_features_in_`,
    `feature_names_in_`); otherwise they must be as fitted.
    """
    found = _plain_rows(X, narrow=narrow)
    usual = found is not None and (reset or found.shape[1] == estimator.n_features_in_)
    if found is None or not usual or (ensure_all_finite and not np.isfinite(found).all()):
        from sklearn.utils import validation

        dtype = [np.float64, np.float32] if narrow else np.float64
        return np.asarray(
            validation.validate_data(
                estimator,
                X,
                reset=reset,
                dtype=dtype,
                order="C",
                ensure_all_finite=ensure_all_finite,
            )
        )
    check_feature_names(estimator, X, reset=reset)
    if reset:
        estimator.n_features_in_ = found.shape[1]
    return found


def _plain_rows(X: Any, *, narrow: bool) -> np.ndarray | None:
    """An array or list of rows of numbers as a contiguous table; None for anything else."""
    found = _plain_array(X)
    if found is None or found.ndim != 2 or not found.size or found.dtype.kind not in "biuf":
        return None
    keep = narrow and found.dtype == np.float32 and isinstance(X, np.ndarray)
    return np.asarray(found, np.float32 if keep else np.float64, order="C")


def _plain_array(data: Any) -> np.ndarray | None:
    """A NumPy array or list as a NumPy array; None for other types and for uneven lists."""
    if type(data) not in PLAIN:
        return None
    try:
        return np.asarray(data)
    except (ValueError, TypeError):
        return None


def check_feature_names(estimator: Any, X: Any, *, reset: bool) -> None:
    """Take over the names of the columns of X, or compare them with those that were fitted."""
    names = _column_names(X)
    if names is None or (not reset and names != list(getattr(estimator, NAMES, ()))):
        from sklearn.utils import validation

        validation.validate_data(estimator, X, reset=reset, skip_check_array=True, ensure_2d=False)
    elif reset and names:
        setattr(estimator, NAMES, np.array(names, object))
    elif reset:
        vars(estimator).pop(NAMES, None)


def _column_names(X: Any) -> list[str] | None:
    """Names of the columns, none for an array or a list; None where it is for scikit-learn."""
    if type(X) in PLAIN:
        return []
    if (type(X).__module__.partition(".")[0], type(X).__name__) not in TABLES:
        return None
    names = list(getattr(X, "column_names", X.columns))
    return names if names and all(type(name) is str for name in names) else None


def column_or_1d(y: Any) -> np.ndarray:
    """A column as an array; a table of one column warns, and of more is a ValueError."""
    found = _plain_array(y)
    if found is not None and found.ndim == 1 and found.dtype.kind in "biufU":
        return np.ascontiguousarray(found)
    from sklearn.utils import validation

    return np.asarray(validation.column_or_1d(y, warn=True))


def check_classification_targets(labels: np.ndarray) -> None:
    """Refuse labels that are fractions or no labels at all."""
    if labels.dtype.kind not in "biuU":
        from sklearn.utils import multiclass

        multiclass.check_classification_targets(labels)


def target_numbers(y: Any, rows: int) -> np.ndarray:
    """Targets as finite float64, one for each row."""
    found = _plain_array(y)
    if found is not None and found.shape == (rows,) and rows and found.dtype.kind in "biuf":
        numbers = np.ascontiguousarray(found, np.float64)
        if np.isfinite(numbers).all():
            return numbers
    from sklearn.utils import validation

    numbers = validation.check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    validation.check_consistent_length(np.empty(rows), numbers)
    return np.asarray(validation.column_or_1d(numbers, warn=True))

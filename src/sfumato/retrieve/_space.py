"""What an index encodes of a vector: its direction, itself, or itself lifted to a sphere."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from sfumato._require import one_of
from sfumato.retrieve._lift import Lift, lengths
from sfumato.sketch._rows import rows

__all__ = ["METRIC", "Space", "check_vectors", "is_vector", "matrix"]

METRIC = one_of(("cosine", "inner"))
LONGEST = 1e15  # products of two numbers up to here, and sums of those, stay finite in float32


class Space(NamedTuple):
    """How vectors become what the encoder sees.

    Fields: metric; lift, None where vectors are encoded as they are (of length 1 for "cosine").

    >>> Space("cosine").targets(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]], dtype=float32)
    """

    metric: str
    lift: Lift | None = None

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """What is encoded, float32: one column more than there are where vectors are lifted."""
        return self.targets(vectors) if self.lift is None else self.lift.points(vectors)

    def targets(self, vectors: np.ndarray) -> np.ndarray:
        """The vectors whose products with those of queries are the true scores, float32."""
        if self.metric == "inner":
            return vectors.astype(np.float32)
        exact = vectors.astype(np.float64)
        if vectors.dtype != np.float32:  # squares of float64 may vanish or overflow
            exact /= np.abs(exact).max(axis=1, keepdims=True)
        exact /= lengths(exact)[:, None]
        return np.asarray(exact, np.float32)


def is_vector(values: Any) -> bool:
    """True for one vector, False for a matrix of them.

    >>> is_vector([1, 2]), is_vector([[1, 2]])
    (True, False)
    """
    if isinstance(values, list | tuple):
        return len(values) > 0 and isinstance(values[0], Real)
    flat = getattr(values, "ndim", 0) == 1 and len(values) > 0
    return flat and str(getattr(values, "dtype", "")) != "object"


def matrix(owner: str, values: Any, dimension: int | None) -> np.ndarray:
    """Vectors as rows of float32 (as given, without a copy) or float64, all of them finite."""
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if not plain or values.dtype != np.float32 or values.ndim != 2:
        found = rows(owner, values, dimension)
    elif dimension is not None and values.shape[1] != dimension:
        raise ValueError(
            f"{owner}: rows must have {dimension} columns (its dimension), not {values.shape[1]}."
        )
    else:
        found = np.ascontiguousarray(values)
        if found.size and not np.isfinite([found.min(), found.max()]).all():
            row, column = np.argwhere(~np.isfinite(found))[0]
            raise ValueError(f"{owner}: numbers must be finite; row {row}, column {column} is not.")
    if len(found) and not found.shape[1]:
        raise ValueError(f"{owner}: rows must have at least one column.")
    return found


def check_vectors(owner: str, metric: str, vectors: np.ndarray) -> None:
    """Raise ValueError for a row that the metric has no answer for."""
    if metric == "cosine":
        zero = ~vectors.any(axis=1)
        if zero.any():
            raise ValueError(
                f"{owner}: a vector of zeros has no direction; row {int(zero.argmax())} is one: "
                "leave it out, or use metric='inner'."
            )
    elif vectors.size and not -LONGEST <= vectors.min() <= vectors.max() <= LONGEST:
        row = int((np.abs(vectors).max(axis=1) > LONGEST).argmax())
        raise ValueError(
            f"{owner}: numbers must be at most {LONGEST:g} in size; row {row} "
            "has a larger one: divide all vectors by one number."
        )

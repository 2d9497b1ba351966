"""FrequentDirections: a sketch of a tall matrix whose rows stream by, with a certain error."""

import copy
from typing import Annotated, Any, Self

import numpy as np
import scipy

from sfumato.core.storage import Cells, Stored
from sfumato.core.tables import described
from sfumato.core.validation import integer, optional
from sfumato.mine.decompose.matrices import fixed_signs, query_rows

__all__ = ["FrequentDirections"]

HUGE = 1e150  # sum of squares up to which nothing overflows
FLAT = 1e-14  # squared singular values below this part of the largest are rounding errors


class FrequentDirections(Stored):
    """A few rows B in place of a stream of rows A, such that B'B is nearly A'A.

    Parameters
    ----------
    size : int
        Rows of the sketch, from 1 to 2**16; the error falls as 1 / size. Memory is for twice as
        many.
    dimension : int
        Columns of a row, from 1 to 2**24.

    Attributes
    ----------
    total : int
        Number of rows of the stream.
    squares : float
        Sum of their squares, that is the squared Frobenius norm of A.
    shrinkage : float
        Sum of all that was subtracted from squared singular values.

    Notes
    -----
    **Guarantee.** For every direction x of length 1, up to rounding, ``0 <= |A x|**2 - |B x|**2 <=
    error_bound()``, where `error_bound` is what was really subtracted, and ``error_bound() <= |A -
    A_k|**2 / (size - k)`` for every k below `size`, with the best approximation A_k of rank k [1]_.
    A stream of rank below `size` is reproduced. A merged sketch has the same guarantee for both
    streams together, though its numbers differ from those of one sketch of both.

    Rows are collected in a buffer; when it is full its singular values are shrunk so that at least
    half of it becomes free, which takes time ``size * dimension`` per row.

    References
    ----------
    .. [1] Ghashami, Liberty, Phillips, Woodruff. "Frequent directions: simple and deterministic
       matrix sketching". SIAM Journal on Computing 45, 2016, Theorem 1.1 and section 3.
       https://arxiv.org/abs/1501.01711

    Examples
    --------
    >>> sketch = FrequentDirections(size=2, dimension=3)
    >>> for _ in range(100):
    ...     sketch = sketch.update([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]])
    >>> sketch.total, sketch.matrix().shape, sketch.error_bound() < 1e-8
    (200, (1, 3), True)
    >>> values, directions = sketch.singular(1)
    >>> np.abs(directions).round(3)
    array([[0.6, 0.8, 0. ]])
    """

    size: Annotated[int, integer(1, 2**16)]
    dimension: Annotated[int, integer(1, 2**24)]
    total: int
    filled: int
    squares: float
    shrinkage: float
    _rows: np.ndarray
    _scalars = {"total": 0, "filled": 0, "squares": 0.0, "shrinkage": 0.0}

    def __init__(self, size: int, dimension: int) -> None:
        self._set_parameters(size=size, dimension=dimension)
        vars(self).update(self._scalars)
        self._rows = np.zeros((2 * self.size, self.dimension))

    def update(self, rows: Any) -> Self:
        """Add rows to the stream.

        Parameters
        ----------
        rows : array_like or sparse matrix of shape (n, dimension)
            Finite numbers; of a sparse matrix a few rows are dense at a time.

        Returns
        -------
        Self
            The object itself.
        """
        checked = query_rows("FrequentDirections", rows, self.dimension)
        numbers = checked.data if scipy.sparse.issparse(checked) else checked.reshape(-1)
        numbers = numbers.astype(np.float64, copy=False)
        squares = self.squares + float(numbers @ numbers)
        self._check_squares(squares)
        state = _Directions(self)
        for first in range(0, checked.shape[0], self.size):
            part = checked[first : first + self.size]
            state.add(part.toarray() if scipy.sparse.issparse(part) else part)
        state.into(self, self.total + checked.shape[0], squares)
        return self

    def merge(self, other: Self) -> Self:
        """Add the stream of another sketch to this one, in place.

        Parameters
        ----------
        other : Self
            Sketch of the same size and dimension over other rows. It is not changed.

        Returns
        -------
        Self
            The object itself, whose guarantee holds for both streams together.
        """
        self._check_same(other, "merge")
        if other is self:
            raise ValueError(
                "FrequentDirections: cannot merge with itself, every row would count twice; merge "
                "a sketch of other rows."
            )
        squares = self.squares + other.squares
        self._check_squares(squares)
        state = _Directions(self)
        state.shrinkage += other.shrinkage
        for first in range(0, other.filled, self.size):
            state.add(other._rows[first : min(first + self.size, other.filled)])
        state.into(self, self.total + other.total, squares)
        return self

    def copy(self) -> Self:
        """Copy the sketch.

        Returns
        -------
        Self
            An equal sketch with its own memory.
        """
        return copy.deepcopy(self)

    def matrix(self) -> np.ndarray:
        """Return the rows B of the sketch.

        Returns
        -------
        ndarray of shape (n, dimension)
            At most `size` rows; the sketch itself stays as it is.
        """
        state = _Directions(self)
        if state.filled > self.size:
            state.shrink()
        return state.rows[: state.filled].copy()

    def error_bound(self) -> float:
        """Return how much larger than the sketch's any squared length of the stream may be.

        Returns
        -------
        float
            The largest eigenvalue of A'A - B'B is at most this, for B of `matrix`.
        """
        state = _Directions(self)
        if state.filled > self.size:
            state.shrink()
        return state.shrinkage

    def singular(self, rank: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the leading singular values and right singular vectors of the sketch.

        Parameters
        ----------
        rank : int or None, default=None
            Number of values, 1 to `size`; None for all. Fewer are returned where the stream has
            fewer directions.

        Returns
        -------
        values : ndarray of shape (n,)
            Singular values, descending. A squared value is at most that of the stream, and less by
            at most `error_bound`.
        vectors : ndarray of shape (n, dimension)
            Orthonormal directions, one per row.
        """
        most = optional(integer(1, self.size)).check("FrequentDirections", "rank", rank)
        _, values, vectors = np.linalg.svd(self.matrix(), full_matrices=False)
        inside = int((values > np.sqrt(FLAT) * values.max(initial=0.0)).sum())
        n = min(inside, self.size if most is None else most)
        return values[:n], vectors[:n] * fixed_signs(vectors[:n])[:, np.newaxis]

    def _check_squares(self, squares: float) -> None:
        if not squares <= HUGE:
            raise ValueError(
                f"FrequentDirections: the squares of all rows must sum to at most {HUGE:g}; scale "
                "the numbers."
            )

    def _layout(self) -> dict[str, Cells]:
        return {"_rows": Cells(np.float64, (2 * self.size, self.dimension), "")}

    def _check_state(self) -> None:
        if not 0 <= self.filled <= 2 * self.size or self.total < 0:
            raise ValueError("the number of rows does not fit.")
        if not np.isfinite(self._rows).all() or self._rows[self.filled :].any():
            raise ValueError("the rows are not finite, or beyond their number.")
        stored = float(np.square(self._rows).sum())
        most = self.squares * (1 + 1e-6)
        if not (0 <= self.squares <= HUGE and self.shrinkage >= 0 and stored <= most):
            raise ValueError("the rows are larger than the stream.")
        if self.shrinkage * self.size > most:
            raise ValueError("more was subtracted than there was.")

    def __repr__(self) -> str:
        return described(self, **self.parameters)


class _Directions:
    """A copy of the buffer, which becomes the sketch's when all rows are in it."""

    def __init__(self, sketch: FrequentDirections) -> None:
        self.size, self.rows = sketch.size, sketch._rows.copy()
        self.filled, self.shrinkage = sketch.filled, sketch.shrinkage

    def add(self, rows: np.ndarray) -> None:
        """Append at most `size` rows; those of zeros are left out."""
        rows = rows[rows.any(axis=1)]
        if self.filled + len(rows) > len(self.rows):
            self.shrink()
        self.rows[self.filled : self.filled + len(rows)] = rows
        self.filled += len(rows)

    def shrink(self) -> None:
        """Subtract the squared singular value number `size` from all, which leaves fewer rows."""
        rows = self.rows[: self.filled]
        squared, vectors = np.linalg.eigh(rows @ rows.T)
        squared, vectors = squared[::-1], vectors[:, ::-1]
        least = max(float(squared[self.size - 1]), 0.0) if self.filled >= self.size else 0.0
        inside = squared > max(least, FLAT * squared[0])
        factors = np.sqrt((squared[inside] - least) / squared[inside])
        left = (vectors[:, inside] * factors).T @ rows
        self.rows[:] = 0
        self.rows[: len(left)] = left
        self.filled = len(left)
        self.shrinkage += least

    def into(self, sketch: FrequentDirections, total: int, squares: float) -> None:
        """Replace the sketch's state at once, so that Ctrl-C leaves the old one or the new."""
        vars(sketch).update(
            _rows=self.rows,
            filled=self.filled,
            shrinkage=self.shrinkage,
            total=total,
            squares=squares,
        )

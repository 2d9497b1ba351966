"""Tensor sketch: features of fixed width for the polynomial kernel."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import rows as checked
from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer, positive
from sfumato.kernels.sketch import projections
from sfumato.sketch.base import HEAVIEST, SEED, LinearSketch

__all__ = ["TensorSketch"]

NUMBERS = 2**18  # of count sketches in memory at a time: 2 MiB


class TensorSketch(LinearSketch):
    """Random features of rows for the polynomial kernel ``<x, y>**degree``, and their sum.

    `transform` maps rows to features, for linear methods; `update` adds the features of rows to the
    sketch. For the kernel ``(<x, y> + c)**degree`` append the number sqrt(c) to every row. Merges
    up to rounding.

    Parameters
    ----------
    width : int
        Number of features, from 1 to 2**24. The variance is inversely proportional to it.
    dimension : int
        Numbers per row, from 1 to 2**24.
    degree : int, default=2
        Degree of the kernel, from 1 to 8.
    seed : int, default=0
        Seed of the hash functions. Sketches merge only if their seeds are equal.

    Attributes
    ----------
    mass : float
        Sum over rows of (sum of the absolute values of the row)**degree, at most 1e140.

    Notes
    -----
    **Guarantee.** ``<transform(x), transform(y)>`` is an unbiased estimate of ``<x, y>**degree``.
    Its error is at most ``error_bound(c) * |x|**degree * |y|**degree`` with probability at least c,
    where |x| is the Euclidean norm.

    The sketch stores the sum of the features of all rows: `inner` estimates the sum of
    ``<x, y>**degree`` over all pairs of a row here and a row there, with an error of at most
    ``error_bound(c)`` times the norms of both sums of tensors.

    References
    ----------
    .. [1] Pham, Pagh. "Fast and Scalable Polynomial Kernels via Explicit Feature Maps". KDD 2013.
    .. [2] Avron, Nguyen, Woodruff. "Subspace Embeddings for the Polynomial Kernel". NIPS 2014 (sums
       of tensors).

    Examples
    --------
    >>> sketch = TensorSketch(4096, dimension=3)
    >>> x, y = sketch.transform([[1, 2, 3], [3, 2, 1]])
    >>> bool(abs(x @ y - 10**2) < sketch.error_bound(0.99) * 14**2)
    True
    """

    width: Annotated[int, integer(1, 2**24)]
    dimension: Annotated[int, integer(1, 2**24)]
    degree: Annotated[int, integer(1, 8)]
    seed: Annotated[int, SEED]
    _scalars = {"mass": 0.0}
    _no_release = (
        "its cells are float64 sums of products without a bound, whose rounding depends on all "
        "other rows; bound the rows and release their vector in fixed point."
    )

    def __init__(self, width: int, *, dimension: int, degree: int = 2, seed: int = 0) -> None:
        self._set_parameters(width=width, dimension=dimension, degree=degree, seed=seed)
        self._allocate()

    @classmethod
    def from_error(
        cls,
        error: float,
        confidence: float = 0.99,
        *,
        dimension: int,
        degree: int = 2,
        seed: int = 0,
    ) -> Self:
        """Build the narrowest sketch with a given error bound.

        Parameters
        ----------
        error : float
            Bound on the error, in units of ``|x|**degree |y|**degree``, above 0.
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        dimension : int
            Numbers per row.
        degree : int, default=2
            Degree of the kernel, from 1 to 8.
        seed : int, default=0
            Seed of the hash functions.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``.
        """
        error = positive.check("TensorSketch", "error", error)
        miss = 1 - fraction.check("TensorSketch", "confidence", confidence)
        degree = integer(1, 8).check("TensorSketch", "degree", degree)
        width = max(1, math.ceil((3**degree - 1) / (error**2 * miss) - 1e-9))
        return cls(width, dimension=dimension, degree=degree, seed=seed)

    def update(self, rows: Any) -> Self:
        """Add the features of rows to the sketch.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Finite numbers: NumPy array, Arrow table, data frame or list of lists.

        Returns
        -------
        Self
            The sketch itself.
        """
        matrix = checked("TensorSketch", rows, self.dimension)
        mass = self._heavier(self._masses(matrix).sum())
        for _, features in self._blocks(matrix):
            self._cells += features.sum(axis=0)
        self.mass = mass
        return self

    def transform(self, rows: Any) -> np.ndarray:
        """Compute the features of rows; the sketch is not changed.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Finite numbers: NumPy array, Arrow table, data frame or list of lists.

        Returns
        -------
        ndarray of shape (n, width)
            Features of every row, float64.
        """
        matrix = checked("TensorSketch", rows, self.dimension)
        self._masses(matrix)
        out = np.empty((len(matrix), self.width))
        for start, features in self._blocks(matrix):
            out[start : start + len(features)] = features
        return out

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an inner product of features.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.

        Returns
        -------
        float
            Bound on the absolute error in units of ``|x|**degree |y|**degree``, by Chebyshev's
            inequality.

        Notes
        -----
        The variance is at most (3**degree - 1) / width in the squared unit. In each coordinate of
        the tensor four indices pair up in one of three ways, and all but one of the combinations
        need a collision, of probability at most 1 / width.
        """
        miss = 1 - fraction.check("TensorSketch", "confidence", confidence)
        return math.sqrt((3**self.degree - 1) / (self.width * miss))

    def _blocks(self, matrix: np.ndarray) -> Any:
        """Yield first rows and features: count sketches by `degree` hashes, convolved by FFT."""
        hashes = hash_column(range(self.dimension), self.seed)
        step = max(1, NUMBERS // (self.width * self.degree))
        for start in range(0, len(matrix), step):
            part = matrix[start : start + step]
            sketches = np.zeros((len(part), self.degree, self.width))
            projections.scatter(part, hashes, sketches)
            if self.degree == 1:
                yield start, sketches[:, 0]
            else:
                spectrum = np.fft.rfft(sketches, axis=2).prod(axis=1)
                yield start, np.fft.irfft(spectrum, self.width, axis=1)

    def _masses(self, matrix: np.ndarray) -> np.ndarray:
        """Bound on the absolute features of each row; raises if products could overflow."""
        with np.errstate(over="ignore"):
            masses = np.abs(matrix).sum(axis=1) ** self.degree
        large = ~(masses <= HEAVIEST)
        if large.any():
            raise ValueError(
                f"TensorSketch: row {int(large.argmax())} is too large for degree {self.degree}; "
                f"scale the rows."
            )
        return np.asarray(masses)

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.float64, (self.width,))}

"""Tensor sketch: features whose inner products are powers of inner products, in little memory."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import rows as checked
from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer, positive
from sfumato.kernels.sketch.projections import scatter
from sfumato.sketch.base import HEAVIEST, SEED, LinearSketch

__all__ = ["TensorSketch"]

NUMBERS = 2**18  # of count sketches held at a time: 2 MiB


class TensorSketch(LinearSketch):
    """Features of rows for the polynomial kernel <x, y>**degree, and their sum over a stream.

    Parameters
    ----------
    width : int
        Features, up to 2**24.
    dimension : int
        Numbers in a row, up to 2**24.
    degree : int, default=2
        1 to 8.
    seed : int, default=0
        Of the hashes. For (<x, y> + c)**degree give every row one more number, sqrt(c). The sum of
        |x|**degree over rows, |x| the sum of sizes, is at most 1e140. Merges up to rounding.

    Notes
    -----
    **Guarantee.** <transform(x), transform(y)> is unbiased for <x, y>**degree and off by more than
    error_bound(c) |x|**degree |y|**degree with probability at most 1 - c. As a sketch it holds the
    sum of the features of all rows: `inner` estimates the sum of <x, y>**degree over all pairs of a
    row here and a row there, within error_bound(c) times the norms of both sums of tensors.

    References
    ----------
    .. [1] Pham and Pagh 2013; for sums of tensors Avron, Nguyen and Woodruff 2014.

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
        """The smallest width whose error bound is `error`.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        dimension : int
            TODO.
        degree : int, default=2
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The smallest width whose error bound is `error`.
        """
        error = positive.check("TensorSketch", "error", error)
        miss = 1 - fraction.check("TensorSketch", "confidence", confidence)
        degree = integer(1, 8).check("TensorSketch", "degree", degree)
        width = max(1, math.ceil((3**degree - 1) / (error**2 * miss) - 1e-9))
        return cls(width, dimension=dimension, degree=degree, seed=seed)

    def update(self, rows: Any) -> Self:
        """Add the features of every row.

        Parameters
        ----------
        rows : object
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        matrix = checked("TensorSketch", rows, self.dimension)
        mass = self._heavier(self._masses(matrix).sum())
        for _, features in self._blocks(matrix):
            self._cells += features.sum(axis=0)
        self.mass = mass
        return self

    def transform(self, rows: Any) -> np.ndarray:
        """The features of every row, `width` numbers each; the sketch stays as it is.

        Parameters
        ----------
        rows : object
            TODO.

        Returns
        -------
        ndarray
            The features of every row, `width` numbers each; the sketch stays as it is.
        """
        matrix = checked("TensorSketch", rows, self.dimension)
        self._masses(matrix)
        out = np.empty((len(matrix), self.width))
        for start, features in self._blocks(matrix):
            out[start : start + len(features)] = features
        return out

    def error_bound(self, confidence: float = 0.99) -> float:
        """The error, in units of |x|**degree |y|**degree, kept with this probability (Chebyshev).

        The variance is at most (3**degree - 1) / width in the squared unit: in each coordinate of
        the tensor four indices pair up in one of three ways, and all but one of the combinations
        need a collision, of probability at most 1 / width.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The error, in units of |x|**degree |y|**degree, kept with this probability (Chebyshev).
        """
        miss = 1 - fraction.check("TensorSketch", "confidence", confidence)
        return math.sqrt((3**self.degree - 1) / (self.width * miss))

    def _blocks(self, matrix: np.ndarray) -> Any:
        """Start rows and features: count sketches by `degree` hashes, convolved by FFT."""
        hashes = hash_column(range(self.dimension), self.seed)
        step = max(1, NUMBERS // (self.width * self.degree))
        for start in range(0, len(matrix), step):
            part = matrix[start : start + step]
            sketches = np.zeros((len(part), self.degree, self.width))
            scatter(part, hashes, sketches)
            if self.degree == 1:
                yield start, sketches[:, 0]
            else:
                spectrum = np.fft.rfft(sketches, axis=2).prod(axis=1)
                yield start, np.fft.irfft(spectrum, self.width, axis=1)

    def _masses(self, matrix: np.ndarray) -> np.ndarray:
        """What no feature of a row exceeds in size; raises where products could overflow."""
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

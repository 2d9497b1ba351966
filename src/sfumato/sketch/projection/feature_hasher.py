"""Feature hashing: a vector over any keys folded, with random signs, into a fixed width."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import real_weights
from sfumato.core.hashing import BLOCK
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import counters
from sfumato.kernels.sketch.projections import place
from sfumato.sketch.base import FLOAT_SUMS, SEED, KeyedSketch, LinearSketch
from sfumato.sketch.similarity.token_sets import checked_offsets

__all__ = ["FeatureHasher"]


class FeatureHasher(LinearSketch, KeyedSketch):
    """One vector over any keys, or one for each of many rows, in `width` numbers.

    Parameters
    ----------
    width : int
        Numbers kept, 1 to 2**28.
    seed : int, default=0
        Of the hash. Weights are real numbers, whose sizes sum to at most 1e140. Merges up to
        rounding.

    Notes
    -----
    **Guarantee.** Estimates, inner products and squared norms are unbiased. |estimate - true| <=
    error_bound(c) with probability c for each key: collisions add variance |v|**2 / width at most.
    An inner product has variance at most 2 |u|**2 |v|**2 / width. The cells are those of the first
    row of a CountSketch of the same width and seed.

    References
    ----------
    .. [1] Weinberger, Dasgupta, Langford, Smola and Attenberg 2009; thesis 2.3.2.5.

    Examples
    --------
    >>> tea = FeatureHasher(64).update(["black", "green", "black"], [1, 2, 0.5])
    >>> tea.estimate(["black", "green"])
    array([1.5, 2. ])
    >>> tea.transform(["black", "green", "black"], offsets=[0, 1, 3]).shape
    (2, 64)
    """

    width: Annotated[int, integer(1, 2**28)]
    seed: Annotated[int, SEED]
    keys: str
    version = 2  # a key has one hash, whatever its type
    _scalars = {"mass": 0.0, "keys": ""}
    _no_release = FLOAT_SUMS

    def __init__(self, width: int, *, seed: int = 0) -> None:
        self._set_parameters(width=width, seed=seed)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, *, seed: int = 0) -> Self:
        """The smallest width that keeps estimates within `error` times the norm (Chebyshev).

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The smallest width that keeps estimates within `error` times the norm (Chebyshev).
        """
        error = fraction.check("FeatureHasher", "error", error)
        miss = 1 - fraction.check("FeatureHasher", "confidence", confidence)
        return cls(math.ceil(1 / (error**2 * miss) - 1e-9), seed=seed)

    def update(self, keys: Column, weights: Column | None = None) -> Self:
        """Add every key's weight, or one; a negative weight removes.

        Parameters
        ----------
        keys : array_like
            TODO.
        weights : array_like or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        weighted = real_weights("FeatureHasher", weights, column.size)
        mass = self._heavier(column.size if weighted is None else np.abs(weighted).sum())
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            if weighted is None:
                counters.add_one_signed(self._cells[None], hashes, scratch)
            else:
                counters.add_signed(self._cells[None], hashes, scratch, weighted[rows])
        self.mass = mass
        self._note_keys(column)
        return self

    def estimate(self, keys: Column) -> np.ndarray:
        """The weight of every key.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            The weight of every key.
        """
        column = self._key_column(keys)
        out = np.empty(column.size)
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            counters.mean(self._cells[None], hashes, scratch, out[rows])
        return out

    def transform(
        self, keys: Column, offsets: Any, weights: Column | None = None, *, dense: bool = False
    ) -> Any:
        """A matrix with, in row r, the cells that keys offsets[r] to offsets[r + 1] would fill.

        keys of all rows, one after the other;

        Parameters
        ----------
        keys : array_like
            TODO.
        offsets : object
            Where each row starts, and the end.
        weights : array_like or None, default=None
            Of the keys, or ones.
        dense : bool, default=False
            A NumPy array instead of a SciPy CSR matrix. The sketch stays as it is.

        Returns
        -------
        object
            A matrix with, in row r, the cells that keys offsets[r] to offsets[r + 1] would fill.
        """
        from scipy.sparse import csr_matrix  # here, since most users of sketches never need it

        column = self._key_column(keys)
        starts = checked_offsets("FeatureHasher", offsets, column.size, "keys")
        weighted = real_weights("FeatureHasher", weights, column.size)
        slots, values = np.empty(column.size, np.int32), np.empty(column.size)
        for rows, hashes in self._hashes(column):
            place(hashes, self.width, slots[rows], values[rows])
        if weighted is not None:
            values *= weighted
        out = csr_matrix((values, slots, starts), shape=(starts.size - 1, self.width))
        out.sum_duplicates()
        return out.toarray() if dense else out

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by, with this probability for each key (Chebyshev).

        The norm is read off the cells: a half of the chance that it is too low by Cantelli's
        inequality, for a variance of 2 |v|**4 / width, the other half for the key's collisions. The
        mass bounds the norm for certain, which is better for few keys and small widths.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each key (Chebyshev).
        """
        miss = 1 - fraction.check("FeatureHasher", "confidence", confidence)
        certain = self.mass / math.sqrt(self.width * miss)
        short = math.sqrt(2 / self.width * (2 / miss - 1))
        if short >= 1:
            return certain
        return min(certain, self.norm() / math.sqrt((1 - short) * self.width * miss / 2))

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.float64, (self.width,))}

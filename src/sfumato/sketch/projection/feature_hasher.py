"""Feature hashing: vectors over any keys in a fixed number of dimensions."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import real_weights
from sfumato.core.hashing import BLOCK
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Keys
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import counters, projections
from sfumato.sketch.base import FLOAT_SUMS, SEED, KeyedSketch, LinearSketch, answers_to
from sfumato.sketch.similarity.token_sets import checked_offsets

__all__ = ["FeatureHasher"]


class FeatureHasher(LinearSketch, KeyedSketch):
    """Vector over any keys, hashed with random signs to a fixed width.

    `update` sketches one vector; `transform` maps many rows to a sparse matrix, for linear models
    without a vocabulary. Merges up to rounding.

    Parameters
    ----------
    width : int
        Number of cells, from 1 to 2**28. The variance is inversely proportional to it.
    seed : int, default=0
        Seed of the hash. Sketches merge only if their seeds are equal.

    Attributes
    ----------
    mass : float
        Sum of the absolute weights, at most 1e140.

    Notes
    -----
    **Guarantee.** Estimates, inner products and squared norms are unbiased, and
    ``|estimate - true| <= error_bound(c)`` with probability at least c for each key. Collisions
    give an estimate variance at most ``|v|**2 / width``, and an inner product variance at most
    ``2 |u|**2 |v|**2 / width``.

    The cells are those of the first row of a `CountSketch` of the same width and seed.

    References
    ----------
    .. [1] Weinberger, Dasgupta, Langford, Smola, Attenberg. "Feature Hashing for Large Scale
       Multitask Learning". ICML 2009. https://arxiv.org/abs/0902.2206
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.3.2.5 (count sketch of one row).
       https://theses.hal.science/tel-01430156

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
        """Build the narrowest sketch whose estimates have a given error bound.

        Parameters
        ----------
        error : float
            Bound on the error as a fraction of the vector's norm, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.
        seed : int, default=0
            Seed of the hash.

        Returns
        -------
        Self
            An empty sketch whose width suffices by Chebyshev's inequality.
        """
        error = fraction.check("FeatureHasher", "error", error)
        miss = 1 - fraction.check("FeatureHasher", "confidence", confidence)
        return cls(math.ceil(1 / (error**2 * miss) - 1e-9), seed=seed)

    def update(self, keys: Column, weights: Column | None = None) -> Self:
        """Add weights of keys to the vector; a negative weight removes.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
        weights : array_like of shape (n,) or None, default=None
            Real number to add for each key, up to 1e200 in absolute value; None adds 1 for each.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        weighted = real_weights("FeatureHasher", weights, hashed.size)
        mass = self._heavier(hashed.size if weighted is None else np.abs(weighted).sum())
        scratch = np.empty(min(BLOCK, hashed.size), np.uint32)
        for rows, hashes in hashed.blocks:
            if weighted is None:
                counters.add_one_signed(self._cells[None], hashes, scratch)
            else:
                counters.add_signed(self._cells[None], hashes, scratch, weighted[rows])
        self.mass = mass
        self._note_keys(hashed)
        return self

    def estimate(self, keys: Keys) -> Any:
        """Estimate the weight of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or float
            Unbiased estimates, float64; one number for one key.
        """

        def weigh(hashes: np.ndarray, out: np.ndarray) -> None:
            counters.mean(self._cells[None], hashes, np.empty(hashes.size, np.uint32), out)

        return answers_to(keys, self.seed, np.float64, weigh)

    def transform(
        self, keys: Column, offsets: Any, weights: Column | None = None, *, dense: bool = False
    ) -> Any:
        """Hash many rows to a matrix; the sketch is not changed.

        Parameters
        ----------
        keys : array_like of shape (m,)
            Keys of all rows, concatenated.
        offsets : array_like of shape (n + 1,)
            Integers from 0 to m that do not decrease: row r has the keys offsets[r] to
            offsets[r + 1].
        weights : array_like of shape (m,) or None, default=None
            Real weight of each key; None stands for ones.
        dense : bool, default=False
            Whether to return a NumPy array instead of a SciPy CSR matrix.

        Returns
        -------
        csr_matrix or ndarray of shape (n, width)
            The cells of each row.
        """
        from scipy.sparse import csr_matrix  # here, since most users of sketches never need it

        column = self._key_column(keys)
        starts = checked_offsets("FeatureHasher", offsets, column.size, "keys")
        weighted = real_weights("FeatureHasher", weights, column.size)
        slots, values = np.empty(column.size, np.int32), np.empty(column.size)
        for rows, hashes in self._hashes(column):
            projections.place(hashes, self.width, slots[rows], values[rows])
        if weighted is not None:
            values *= weighted
        out = csr_matrix((values, slots, starts), shape=(starts.size - 1, self.width))
        out.sum_duplicates()
        return out.toarray() if dense else out

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - true|``.

        Notes
        -----
        The bound is Chebyshev's. The norm of the vector is estimated from the cells. Half of the
        failure probability is for its being too low, by Cantelli's inequality with variance
        ``2 |v|**4 / width``, the other half for the collisions of the key. The mass bounds the norm
        with certainty, which is better for few keys and small widths.
        """
        miss = 1 - fraction.check("FeatureHasher", "confidence", confidence)
        certain = self.mass / math.sqrt(self.width * miss)
        short = math.sqrt(2 / self.width * (2 / miss - 1))
        if short >= 1:
            return certain
        return min(certain, self.norm() / math.sqrt((1 - short) * self.width * miss / 2))

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.float64, (self.width,))}

"""LpSketch: the norm L_p and moment F_p of a stream for p up to 2, from p-stable sums."""

import math
from functools import lru_cache
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import real_weights
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import between, fraction, integer
from sfumato.kernels.sketch import stable
from sfumato.sketch.base import FLOAT_SUMS, SEED, KeyedSketch, Merging, rounding

__all__ = ["LpSketch", "absolute_cdf", "absolute_quantile"]

MOST_ROWS = 2**16
ANGLES = 2**13  # of the midpoint rule
SMALLEST_P = 0.1
MOST_BITS = 66  # of the reciprocals of the two uniform numbers behind an entry
HEAVIEST = 1e100  # cells up to here, times the largest entry, are finite


def absolute_cdf(x: float, p: float) -> float:
    """Probability that a symmetric p-stable number is at most x > 0 in absolute value.

    The integral over the angle of the probability that the exponential number in the representation
    by Chambers, Mallows and Stuck is on the right side.

    >>> round(absolute_cdf(1.0, 1.0), 6), round(absolute_cdf(math.sqrt(2), 2.0), 4)
    (0.5, 0.6827)
    """
    if p == 1:
        return 2 / math.pi * math.atan(x)
    angle = (np.arange(ANGLES) + 0.5) * (math.pi / 2 / ANGLES)
    first = np.log(np.sin(p * angle)) - np.log(np.cos(angle)) / p - math.log(x)
    logs = np.log(np.cos((1 - p) * angle)) + first * p / (1 - p)
    above = float(np.exp(-np.exp(np.minimum(logs, 700.0))).mean())
    return above if p < 1 else 1 - above


@lru_cache(256)
def absolute_quantile(probability: float, p: float) -> float:
    """The size that a symmetric p-stable number exceeds with 1 - probability.

    >>> round(absolute_quantile(0.5, 1.0), 6)
    1.0
    """
    low, high = -300.0, 300.0  # logarithms
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if absolute_cdf(math.exp(middle), p) < probability
            else (
                low,
                middle,
            )
        )
    return math.exp((low + high) / 2)


class LpSketch(KeyedSketch):
    """Norm L_p and moment F_p of a stream with additions and removals, for p up to 2.

    The norm of order p is (sum over keys of |weight| ** p) ** (1 / p), its power p the moment F_p:
    for p = 1 the sum of absolute net weights, which additions alone would count exactly, but
    removals change. `AMS` is faster for F2, `HyperLogLog` for the number of keys. Merges up to
    rounding.

    Parameters
    ----------
    p : float, default=1.0
        Order of the norm, above 0.1, up to 2.
    rows : int, default=401
        Number of sums, from 1 to 2**16. The error is inversely proportional to its square root.
    seed : int, default=0
        Seed of the entries, which are derived from the hashes of the keys and never stored.
        Sketches merge only if their seeds are equal.

    Attributes
    ----------
    mass : float
        Sum of the absolute weights, at most 1e100.

    Notes
    -----
    **Guarantee.** ``|estimate - norm| <= error_bound(c) * norm`` with probability at least c over
    seeds: a sum of weights times independent p-stable entries is the norm times one such entry, and
    the estimate is the median of the absolute sums over that of an entry's size. The bound holds
    exactly, by the order statistics of the sums.

    Cells are float64, and entries of small p are of very different size: what is removed leaves its
    rounding error, so that the norm of what remains must not be 2**50 times below that of what was
    removed.

    References
    ----------
    .. [1] Indyk. "Stable Distributions, Pseudorandom Generators, Embeddings, and Data Stream
       Computation". J. ACM 53(3), 2006, Theorem 3 (median of stable sums).
       https://doi.org/10.1145/1147954.1147955
    .. [2] Chambers, Mallows, Stuck. "A Method for Simulating Stable Random Variables". J. Amer.
       Statist. Assoc. 71, 1976, equation (2.3) (entries).

    Examples
    --------
    >>> sketch = LpSketch(p=1, rows=2001).update(["tea", "milk", "rum"], [300, 200, 500])
    >>> bool(abs(sketch.update(["rum"], [-900]).estimate() / 900 - 1) < sketch.error_bound())
    True
    """

    p: Annotated[float, between(SMALLEST_P, math.nextafter(2.0, 3.0), above=True)]
    rows: Annotated[int, integer(1, MOST_ROWS)]
    seed: Annotated[int, SEED]
    mass: float
    keys: str
    _cells: np.ndarray
    _scalars = {"mass": 0.0, "keys": ""}
    _no_release = (
        f"one event may change a sum by any amount, since stable entries have no bound; and "
        f"{FLOAT_SUMS}"
    )

    def __init__(self, p: float = 1.0, rows: int = 401, *, seed: int = 0) -> None:
        self._set_parameters(p=p, rows=rows, seed=seed)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, **parameters: Any) -> Self:
        """Build the smallest sketch with a given relative error.

        Parameters
        ----------
        error : float
            Bound on the relative error of the norm, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        **parameters : object
            Other parameters of `LpSketch`: p, seed.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``, of an odd number of rows.
        """
        error = fraction.check("LpSketch", "error", error)
        fraction.check("LpSketch", "confidence", confidence)
        low, high = 0, MOST_ROWS // 2 - 1
        if cls(rows=2 * high + 1, **parameters).error_bound(confidence) > error:
            raise ValueError(
                f"LpSketch: error {error!r} takes more than {MOST_ROWS} rows; allow a larger one."
            )
        while low < high:
            middle = (low + high) // 2
            fits = cls(rows=2 * middle + 1, **parameters).error_bound(confidence) <= error
            low, high = (low, middle) if fits else (middle + 1, high)
        return cls(rows=2 * low + 1, **parameters)

    @property
    def merging(self) -> Merging:
        return rounding(
            "cells are float64, so sums in another order differ by rounding of their largest "
            "entries.",
            2.0 ** (MOST_BITS / self.p - 50),
        )

    def update(self, keys: Column, weights: Column | None = None) -> Self:
        """Add weights of keys; a negative weight removes.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
        weights : array_like of shape (n,) or None, default=None
            Real number to add for each key, up to 1e100 in absolute value; None adds 1 for each.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        weighted = real_weights("LpSketch", weights, hashed.size)
        if weighted is None:
            weighted = np.ones(hashed.size)
        mass = self.mass + float(np.abs(weighted).sum())
        if not mass <= HEAVIEST:
            raise ValueError(
                f"LpSketch: the sizes of all weights must sum to at most {HEAVIEST:g}; scale them."
            )
        self.mass = mass
        self._note_keys(hashed)
        for part, hashes in hashed.blocks:
            stable.add(hashes, weighted[part], self.p, self._cells)
        return self

    def estimate(self) -> float:
        """Estimate the norm of order p.

        Returns
        -------
        float
            Estimated (sum over keys of |weight| ** p) ** (1 / p).
        """
        return float(np.median(np.abs(self._cells))) / absolute_quantile(0.5, self.p)

    def moment(self) -> float:
        """Estimate the moment F_p.

        Returns
        -------
        float
            Estimated sum over keys of |weight| ** p, the power p of `estimate`.
        """
        return float(self.estimate() ** self.p)

    def distance(self, other: Self) -> float:
        """Estimate the norm of the difference of two streams.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included.

        Returns
        -------
        float
            Estimated norm of order p of the differences of the keys' weights, with the relative
            error of `estimate`.
        """
        self._check_same(other, "compare")
        apart = float(np.median(np.abs(self._cells - other._cells)))
        return apart / absolute_quantile(0.5, self.p)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the relative error of the norm.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - norm| / norm``; it depends on p and rows only.

        Notes
        -----
        The middle of n uniform numbers in order has a beta distribution; its quantiles, through the
        distribution of an entry's size, are those of the estimate.
        """
        from scipy.special import betaincinv  # here, since its import takes a quarter of a second

        miss = 1 - fraction.check("LpSketch", "confidence", confidence)
        below, above = (self.rows + 1) // 2, self.rows // 2 + 1  # one number, or those of a pair
        low = float(betaincinv(below, self.rows + 1 - below, miss / 2))
        high = float(betaincinv(above, self.rows + 1 - above, 1 - miss / 2))
        middle = absolute_quantile(0.5, self.p)
        near, far = (absolute_quantile(each, self.p) / middle for each in (low, high))
        return max(far - 1, 1 - near)

    def _join(self, other: Self) -> None:
        mass = self.mass + other.mass
        if not mass <= HEAVIEST:
            raise ValueError(f"LpSketch: the weights of both must sum to at most {HEAVIEST:g}.")
        self.mass = mass
        super()._join(other)

    def _check_state(self) -> None:
        super()._check_state()
        largest = float(np.abs(self._cells).max(initial=0))
        if not (0 <= self.mass <= HEAVIEST and largest <= 2.0 ** (MOST_BITS / self.p) * self.mass):
            raise ValueError("a cell is larger than all that was added.")

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.float64, (self.rows,))}

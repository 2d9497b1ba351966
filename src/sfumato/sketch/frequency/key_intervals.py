"""Intervals and standard errors of the estimates of keys, for sketches and releases alike."""

from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.core.few_keys import KEY_TYPES, key_hash
from sfumato.core.hashing import hashed_keys
from sfumato.core.typing import Keys
from sfumato.core.validation import fraction

__all__ = ["KeyIntervals"]

ABSENT = 1024  # keys that stand for one at random
TWO_SIDED = NormalDist().inv_cdf(0.975)  # standard errors on each side of a 95 % interval


class KeyIntervals:
    """Mixin that adds `interval` and `standard_error` to what has `estimate(keys)`.

    A subclass estimates a block of hashes in `_estimates` and computes its limits in `_limits_of`;
    what all blocks share comes from `_error_distribution`.
    """

    seed: int

    def interval(self, keys: Keys, confidence: float = 0.95) -> tuple[Any, Any]:
        """Compute a confidence interval of the count or weight of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types. Ask for a column: the table is sampled once for all of them, which
            takes a few milliseconds.
        confidence : float, default=0.95
            Approximate probability with which the interval of a key contains the true value,
            between 0 and 1.

        Returns
        -------
        tuple
            Lower and upper limits, two float64 arrays of shape (n,); two numbers for one key.

        Notes
        -----
        The interval is that of the key at hand, from the cells alone; `error_bound` bounds the
        error of any key, with proof. Other cells of a row show how much a key's own cell may hold
        of other keys (and of the noise of a release), so keys are simulated from them [1]_. Their
        errors are sorted by how far the rows of a key are apart: rows that agree have a short
        interval, rows that share cells with heavy keys a long one.

        The probability is over seeds, for a key that was not chosen by its estimate. Errors of a
        few integers only, mostly 0, cannot have the exact probability; theirs is higher.

        References
        ----------
        .. [1] Ting. "Count-Min: Optimal Estimation and Tight Error Bounds using Empirical Error
           Distributions". KDD 2018. https://doi.org/10.1145/3219819.3219975
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        return self._intervals(keys, confidence, self._error_distribution())

    def standard_error(self, keys: Keys | None = None) -> Any:
        """Estimate the standard error of the estimate of every key.

        Parameters
        ----------
        keys : array_like of shape (n,), scalar or None, default=None
            Keys of any types. None stands for a key at random, not one of the heavy ones.

        Returns
        -------
        ndarray of shape (n,) or float
            How far the farther limit of ``interval(keys, 0.95)`` is from the estimate, over 1.96,
            so that 1.96 standard errors on each side make an interval of 95 %, or somewhat more
            where errors of one sign are larger. One number for one key, and for None.

        Notes
        -----
        Rare collisions with heavy keys do not inflate it, unless the rows of the key show one.
        """
        errors = self._error_distribution()
        if keys is None:
            hashes = np.random.default_rng(2).integers(0, 2**64, ABSENT, np.uint64)
            return float(np.median(self._standard_errors(hashes, errors)))
        if isinstance(keys, KEY_TYPES):
            return float(self._standard_errors(key_hash(keys, self.seed), errors)[0])
        hashed = hashed_keys(keys, self.seed)
        out = np.empty(hashed.size)
        for rows, hashes in hashed.blocks:
            out[rows] = self._standard_errors(hashes, errors)
        return out

    def _standard_errors(self, hashes: np.ndarray, errors: Any) -> np.ndarray:
        estimates = np.empty(hashes.size)
        self._estimates(hashes, estimates)
        low, high = self._limits_of(hashes, 0.95, errors)
        return np.asarray(np.maximum(estimates - low, high - estimates) / TWO_SIDED)

    def _intervals(self, keys: Keys, confidence: float, errors: Any) -> tuple[Any, Any]:
        if isinstance(keys, KEY_TYPES):
            low, high = self._limits_of(key_hash(keys, self.seed), confidence, errors)
            return float(low[0]), float(high[0])
        hashed = hashed_keys(keys, self.seed)
        out = np.empty((2, hashed.size))
        for rows, hashes in hashed.blocks:
            out[:, rows] = self._limits_of(hashes, confidence, errors)
        return out[0], out[1]

    def _error_distribution(self) -> Any:
        """What the limits of all keys are computed from."""
        raise NotImplementedError

    def _estimates(self, hashes: np.ndarray, out: np.ndarray) -> None:
        raise NotImplementedError

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

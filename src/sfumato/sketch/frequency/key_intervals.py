"""Intervals and standard errors of the estimates of keys, for sketches and releases alike."""

from typing import Any

import numpy as np

from sfumato.core.few_keys import KEY_TYPES, key_hash
from sfumato.core.hashing import hashed_keys
from sfumato.core.typing import Keys
from sfumato.core.validation import fraction
from sfumato.sketch.frequency.cell_errors import standard_error_of

__all__ = ["KeyIntervals"]


class KeyIntervals:
    """Mixin that adds `interval` and `standard_error` to what has `estimate(keys)`.

    A subclass computes the limits for a block of hashes in `_limits_of`; what all blocks share
    comes from `_error_distribution`.
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

    def standard_error(self, keys: Keys) -> Any:
        """Estimate the standard error of the estimate of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or float
            The length of ``interval(keys, 0.95)`` over 3.92, so that 1.96 standard errors on each
            side make an interval of 95 %. Rare collisions with heavy keys do not inflate it, unless
            the rows of the key show one. One number for one key.
        """
        low, high = self.interval(keys, 0.95)
        found = standard_error_of(np.asarray(low), np.asarray(high))
        return found if isinstance(low, np.ndarray) else found.item()

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

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

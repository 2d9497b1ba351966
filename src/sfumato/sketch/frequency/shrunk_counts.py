"""Counts of a queried column, each shrunk within its error towards what the column makes likely.

The errors of a table are known from its own cells (`cell_errors`), so the distribution of the
counts of a column can be estimated from its raw estimates: the maximum likelihood of a histogram.
With it, every count has a posterior distribution, whose median is the estimate.
"""

from typing import Any, NamedTuple

import numpy as np

from sfumato.core.few_keys import KEY_TYPES, key_hash
from sfumato.core.hashing import hashed_keys
from sfumato.core.typing import Keys
from sfumato.sketch.frequency.cell_errors import CellErrors
from sfumato.sketch.frequency.key_intervals import KeyIntervals

__all__ = ["ColumnCounts", "Placed", "ShrunkCounts"]

ROUNDS = 300  # of the EM algorithm
FINE = 4  # cells of the histogram within the typical error, and in a factor e beyond it
BLOCK = 4096  # keys at a time


class Placed(NamedTuple):
    """Keys by raw estimate, stratum of their rows' spread, and unit of the errors there."""

    raw: np.ndarray
    stratum: np.ndarray
    unit: np.ndarray

    def taken(self, at: Any) -> "Placed":
        return Placed(self.raw[at], self.stratum[at], self.unit[at])


class ColumnCounts:
    """Posterior distribution of the counts of a column of keys.

    Parameters
    ----------
    errors : CellErrors
        Distribution of the errors.
    keys : Placed
        Raw estimates of the column.
    lowest : float
        Least possible count, -inf for weights of both signs.
    whole : bool
        Whether counts are integers.
    """

    def __init__(self, errors: CellErrors, keys: Placed, lowest: float, whole: bool) -> None:
        self._errors = [errors.of_stratum(s) for s in range(errors.strata)]
        self._edges = _edges(errors.typical(), keys.raw, lowest, whole)
        self._widths = np.diff(self._edges)
        self._density = self._fitted(keys)

    def medians(self, keys: Placed) -> np.ndarray:
        """Posterior medians of keys, which are in the column."""
        out = keys.raw.astype(np.float64)
        for at, stratum in self._blocks(keys):
            part, errors = keys.taken(at), self._errors[stratum]
            below = self._below(part, errors)
            posterior = (below[:, :-1] - below[:, 1:]) * self._density
            cumulative = np.cumsum(posterior, axis=1)
            rows = np.flatnonzero(cumulative[:, -1] > 0)
            half = cumulative[rows, -1] / 2
            cell = (cumulative[rows] < half[:, None]).sum(axis=1)
            over = 1 - (cumulative[rows, cell] - half) / posterior[rows, cell]
            high, low = below[rows, cell], below[rows, cell + 1]
            place = high - np.ceil(over * (high - low)).astype(np.int64)
            found = errors[np.clip(place, low, high - 1)]
            out[at[rows]] = part.raw[rows] - found * part.unit[rows]
        return out

    def _fitted(self, keys: Placed) -> np.ndarray:
        """Density of the counts of keys in each cell, weighted by the counts, by EM."""
        likelihood, number = self._likelihoods(keys)
        mass = np.full(self._widths.size, 1 / self._widths.size)
        for _ in range(ROUNDS):
            joint = likelihood * mass
            mass = (number / joint.sum(axis=1)) @ joint
            mass = (mass + 1 / mass.size) / (mass.sum() + 1)  # one key more, anywhere
        middles = np.abs(self._edges[1:] + self._edges[:-1]) / 2
        return np.asarray(mass * np.maximum(middles, self._widths / 2) / self._widths)

    def _likelihoods(self, keys: Placed) -> tuple[np.ndarray, np.ndarray]:
        """Of each kind of key, the probability of its raw estimate by cell; and their number."""
        cell = np.searchsorted(self._edges, keys.raw)
        fine = np.rint(4 * (keys.raw - self._edges[cell - 1]) / self._widths[cell - 1])
        kinds = np.stack([keys.stratum, cell, fine, np.rint(8 * np.log2(keys.unit))])
        _, first, number = np.unique(kinds, axis=1, return_index=True, return_counts=True)
        each = keys.taken(first)
        out = np.empty((first.size, self._widths.size))
        for at, stratum in self._blocks(each):
            below = self._below(each.taken(at), self._errors[stratum])
            out[at] = (below[:, :-1] - below[:, 1:]) / self._widths
        possible = out.sum(axis=1) > 0
        return out[possible], number[possible].astype(np.float64)

    def _blocks(self, keys: Placed) -> Any:
        """Positions of keys of one stratum, at most BLOCK of them, and the stratum."""
        for stratum in range(len(self._errors)):
            inside = np.flatnonzero(keys.stratum == stratum)
            for start in range(0, inside.size, BLOCK):
                yield inside[start : start + BLOCK], stratum

    def _below(self, keys: Placed, errors: np.ndarray) -> np.ndarray:
        """Number of the errors with which each key has at least the count of each edge."""
        needed = (keys.raw[:, None] - self._edges) / keys.unit[:, None]
        return np.asarray(np.searchsorted(errors, needed, side="right"))


def _edges(typical: float, raw: np.ndarray, lowest: float, whole: bool) -> np.ndarray:
    """Edges of the histogram: even within the typical error, and geometric beyond it."""
    span = float(np.abs(raw).max()) + 2 * typical + 1
    step = max(typical / FINE, 1.0) if whole else max(typical / FINE, span * 1e-9)
    parts = np.sinh(np.arange(0, np.arcsinh(span / step) + 2 / FINE, 1 / FINE / 2)) * step
    positive = np.unique(np.ceil(parts)) + 0.5 if whole else parts[1:]
    return np.concatenate([[-0.5] if lowest == 0 else -positive[::-1], positive])


class ShrunkCounts(KeyIntervals):
    """Mixin that adds `posterior_median` to tables of counters.

    A subclass places a block of hashes in `_placed`; `_lowest` is the least possible count.
    """

    depth: int
    _lowest = -np.inf

    def posterior_median(self, keys: Keys) -> Any:
        """Estimate the count or weight of every key of a column, shrunk within its error.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types. What is likely is learned from the column itself, so ask for all the
            keys that matter at once; a column of a few keys is hardly shrunk.

        Returns
        -------
        ndarray of shape (n,) or float
            Medians of the posterior distributions, float64. One number for one key. At depth 1 the
            estimates as they are: one row does not tell a heavy key from one that shares its cell.

        Raises
        ------
        ValueError
            The errors of the cells depend on the count, as in a CountMin that has no plain ones.

        Notes
        -----
        The estimates of `estimate` have guarantees: never too low, unbiased, or a proved bound.
        These have none, but a smaller error on average: the counts of a column are mostly alike, or
        mostly small, which their raw estimates show. The errors are those that keys would have in
        the table's own cells, as for `interval`; the distribution of the counts is the histogram
        of largest likelihood [1]_, in which a key counts as often as it occurs. The median
        minimizes the expected absolute error of the key of a random event.

        References
        ----------
        .. [1] Efron. "Empirical Bayes deconvolution estimates". Biometrika 2016.
           https://doi.org/10.1093/biomet/asv068
        .. [2] Ting. "Count-Min: Optimal Estimation and Tight Error Bounds using Empirical Error
           Distributions". KDD 2018. https://doi.org/10.1145/3219819.3219975
        """
        errors = self._known_errors()
        if isinstance(keys, KEY_TYPES):
            return float(self._medians([key_hash(keys, self.seed)], errors)[0])
        return self._medians([hashes for _, hashes in hashed_keys(keys, self.seed).blocks], errors)

    def _medians(self, blocks: list[np.ndarray], errors: CellErrors) -> np.ndarray:
        parts = [self._placed(hashes, errors) for hashes in blocks if hashes.size]
        if not parts:
            return np.empty(0)
        column = Placed(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        if self.depth == 1:
            return np.asarray(column.raw, np.float64)
        whole = getattr(self, "cells", "integer") != "real"
        return ColumnCounts(errors, column, self._lowest, whole).medians(column)

    def _known_errors(self) -> CellErrors:
        """The distribution of errors, for tables where it does not depend on the count."""
        raise NotImplementedError

    def _placed(self, hashes: np.ndarray, errors: CellErrors) -> Placed:
        """The raw estimates of keys and their strata."""
        raise NotImplementedError

"""Similarities from what is counted once of each pair of rows, and neighbours ranked with noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.profile._measures import best, measured
from sfumato.profile._released import ReleasedProfiles

__all__ = ["Pairs", "PairwiseProfiles"]

BLOCK = 1 << 22  # similarities held at a time


@dataclass(frozen=True)
class Pairs:
    """Pairs of a row here and a row there: what is known of each, and which rows they are.

    counted: one number or a few for each pair, of shape (n, m) or (n, m, few); left, right: the
    numbers of the rows, which broadcast to (n, m); there, the other release. What a row is to
    itself is not told here: it shares its own noise.
    """

    counted: np.ndarray
    left: np.ndarray
    right: np.ndarray
    there: Any

    def at(self, places: np.ndarray) -> "Pairs":
        """Some places of each row."""
        rows = np.arange(len(places))[:, np.newaxis]
        return Pairs(self.counted[rows, places], self.left, places, self.there)


class PairwiseProfiles(ReleasedProfiles, in_files=False):
    """The base of releases that compare rows in two steps: count, then estimate.

    A subclass counts in `_count`, and from that tells `_inner` (items in common), `_noisy` (how
    alike the rows are with their noise), `_spread` (the variance of a measure), `estimate_size`
    and `_size_variance`.
    """

    def _similarity(self, rows: np.ndarray, other: Any, measure: str) -> np.ndarray:
        return self._estimate(self._pairs(rows, other), measure)

    def _variance(self, rows: np.ndarray, other: Any, measure: str) -> np.ndarray:
        return self._spread(self._pairs(rows, other), measure)

    def _nearest(
        self,
        rows: np.ndarray,
        own: np.ndarray,
        there: Any,
        measure: str,
        found: np.ndarray,
        near: np.ndarray,
    ) -> None:
        """Ranked with the noise: without it small profiles, of which it is most, would win."""
        most = min(found.shape[1], len(there))
        at_once = max(1, BLOCK // max(len(there), 1))
        for start in range(0, rows.size, at_once):
            part = slice(start, start + at_once)
            pairs = self._pairs(rows[part], there)
            scores = self._noisy(pairs, measure)
            asked = np.flatnonzero(own[part] >= 0)
            scores[asked, own[part][asked]] = -np.inf
            places = best(scores, most)
            told = self._estimate(pairs.at(places), measure)
            known = np.take_along_axis(scores, places, 1) > -np.inf
            found[part, :most] = np.where(known, places, -1)
            near[part, :most] = np.where(known, told, -np.inf)

    def _pairs(self, rows: np.ndarray, other: Any) -> Pairs:
        left, right = rows[:, np.newaxis], np.arange(len(other))[np.newaxis]
        return Pairs(self._count(rows, other), left, right, other)

    def _estimate(self, pairs: Pairs, measure: str) -> np.ndarray:
        return measured(measure, self._inner(pairs), *self._floored(pairs))

    def _floored(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Sizes to divide by: not below their own standard error, nor 1."""
        return _floor(self)[pairs.left], _floor(pairs.there)[pairs.right]

    def _count(self, rows: np.ndarray, other: Any) -> np.ndarray:
        raise NotImplementedError

    def _inner(self, pairs: Pairs) -> np.ndarray:
        raise NotImplementedError

    def _noisy(self, pairs: Pairs, measure: str) -> np.ndarray:
        raise NotImplementedError

    def _spread(self, pairs: Pairs, measure: str) -> np.ndarray:
        raise NotImplementedError

    def _size_variance(self) -> np.ndarray:
        raise NotImplementedError


def _floor(release: Any) -> np.ndarray:
    least = np.maximum(np.sqrt(release._size_variance()), 1.0)
    return np.asarray(np.maximum(release.estimate_size(), least))

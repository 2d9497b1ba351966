"""The crowd: what all profiles tell of each item, and how far neighbours may depart from it.

The mean m of neighbours' memberships of an item varies around p, the mean of all, for two reasons.
Neighbours are few and, if released, noisy: this part is c v h, where v is the variance of a
membership between profiles, h the sum of the squared weights, and c how much more neighbours vary
than others. And they are alike: this part is share * p (1 - p). Given m, the best linear guess of
what profiles like these hold is p + (m - p) * s / (s + c v h), s = share * p (1 - p): nearly m
where memberships are exact, p where all is noise. Both numbers are fitted to the neighbours of some
profiles, every other one apart: what the means of two such halves share is no noise, and what they
differ by is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.recommend.neighbours.profiles import Profiles

__all__ = ["BLOCK", "PopularityPrior", "memberships", "parts", "spaced", "weighted_memberships"]

BLOCK = 1 << 22  # memberships held at a time
LOOKED_AT = 1 << 24  # memberships from which the crowd is known
TINY = 1e-12


@dataclass(frozen=True)
class PopularityPrior:
    """mean and variance of an item's memberships between profiles; share and excess c as above.

    Without a share, None, the means of neighbours are taken as they are.
    """

    mean: np.ndarray
    variance: np.ndarray
    share: float | None = None
    excess: float = 1.0

    @classmethod
    def of(cls, profiles: Profiles, items: np.ndarray) -> "PopularityPrior":
        """The crowd of these items, from all profiles or, where they are many, from some."""
        rows = spaced(len(profiles.users_), max(1, LOOKED_AT // items.size))
        sums, squares = np.zeros(items.size), np.zeros(items.size)
        for part in parts(rows, max(1, BLOCK // items.size)):
            told = memberships(profiles, items, part)
            sums += told.sum(axis=0)
            squares += (told**2).sum(axis=0)
        mean = sums / rows.size
        return cls(mean, np.maximum(squares / rows.size - mean**2, 0.0))

    def fitted(
        self, profiles: Profiles, items: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> "PopularityPrior":
        """With the share and the excess that these neighbours show; both 1 if they are too few."""
        twice = (weights[:, ::2] > 0).any(axis=1) & (weights[:, 1::2] > 0).any(axis=1)
        most = float(self._spread.sum()) * int(twice.sum())
        if not most:
            return replace(self, share=1.0)
        halves, chance = [], 0.0
        for half in (slice(0, None, 2), slice(1, None, 2)):
            part = weights[twice, half] / weights[twice, half].sum(axis=1, keepdims=True)
            means = weighted_memberships(profiles, rows[twice, half], part, items)
            halves.append(means - self.mean)
            chance += float((self.variance * _squares(part)).sum())
        share = float((halves[0] * halves[1]).sum()) / most
        excess = float(((halves[0] - halves[1]) ** 2).sum()) / max(chance, TINY)
        return replace(self, share=min(max(share, 0.0), 1.0), excess=excess)

    def blended(self, means: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The best guess of what profiles like these hold; p itself where nobody has a weight."""
        told = means
        if self.share is not None:
            kept = self.share * self._spread
            noise = self.excess * self.variance * _squares(weights)
            trust = kept / (kept + noise + TINY)
            told = self.mean + trust * (means - self.mean)
        alone = ~weights.any(axis=1, keepdims=True)
        return np.where(alone, self.mean, told)

    def at(self, columns: np.ndarray | slice) -> "PopularityPrior":
        """The crowd of some of the items."""
        return replace(self, mean=self.mean[columns], variance=self.variance[columns])

    @property
    def _spread(self) -> np.ndarray:
        within = np.clip(self.mean, 0.0, 1.0)
        return np.asarray(within * (1 - within))


def weighted_memberships(
    profiles: Any, rows: np.ndarray, weights: np.ndarray, items: np.ndarray
) -> np.ndarray:
    """out[q, i] = the sum over k of weights[q, k] * the membership of item i in row rows[q, k].

    Profiles that know a faster way have `sums`.
    """
    if hasattr(profiles, "sums"):
        return np.asarray(profiles.sums(rows, weights, items))
    out = np.zeros((len(rows), items.size))
    for part in parts(np.arange(len(rows)), _abreast(profiles, rows.shape[1], items.size)):
        out[part] = _product(profiles, rows[part], weights[part], items)
    return out


def memberships(profiles: Profiles, items: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """As the profiles tell them; 0 where a release tells nothing, as noise or a full filter may."""
    return np.asarray(np.nan_to_num(profiles.memberships(items, rows), nan=0.0))


def spaced(size: int, most: int) -> np.ndarray:
    """At most so many of the numbers below size, at even distances."""
    count = min(size, most)
    return np.arange(count) * size // max(count, 1)


def _product(
    profiles: Profiles, rows: np.ndarray, weights: np.ndarray, items: np.ndarray
) -> np.ndarray:
    from scipy.sparse import csr_array

    there = weights != 0
    if not there.any():
        return np.zeros((len(rows), items.size))
    known, back = np.unique(rows[there], return_inverse=True)
    ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    whose = csr_array((weights[there], back, ends), (len(rows), known.size))
    return np.asarray(whose @ memberships(profiles, items, known))


def _abreast(profiles: Profiles, neighbours: int, items: int) -> int:
    """How many queries are answered at a time, so that all memberships they need fit in a block."""
    if len(profiles.users_) * items <= BLOCK:
        return max(1, BLOCK // items)
    return max(1, BLOCK // (items * max(neighbours, 1)))


def parts(rows: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """The rows, so many at a time."""
    for start in range(0, rows.size, step):
        yield rows[start : start + step]


def _squares(weights: np.ndarray) -> np.ndarray:
    return np.asarray((weights**2).sum(axis=1, keepdims=True))

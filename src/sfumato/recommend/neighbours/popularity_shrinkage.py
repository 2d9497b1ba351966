"""Popularity prior of item memberships, and how far neighbours' means are shrunk towards it.

The mean m of neighbours' memberships of an item varies around the population mean p for two
reasons. Neighbours are few and, if released, noisy: this sampling variance is c v h, where v is the
variance of a membership between profiles, h the sum of squared weights and c the overdispersion of
neighbours compared with arbitrary profiles. And neighbourhoods differ: this variance is s = b p (1
- p). The best linear estimate of a neighbourhood's membership is p + (m - p) s / (s + c v h):
nearly m where memberships are exact, p where all is noise. b and c are estimated from split halves
of the neighbours of some profiles: the covariance of the two halves' means is signal, their
difference is noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.recommend.neighbours.profiles import Profiles

__all__ = ["BLOCK", "PopularityPrior", "memberships", "parts", "spaced", "weighted_memberships"]

BLOCK = 1 << 22  # memberships in memory at a time
PRIOR_SAMPLE = 1 << 24  # memberships from which the prior is estimated
TINY = 1e-12


@dataclass(frozen=True)
class PopularityPrior:
    """Mean p and variance v of each item's memberships between profiles, with b and c as above.

    `between` is b and `overdispersion` is c. If `between` is None, means are not shrunk.
    """

    mean: np.ndarray
    variance: np.ndarray
    between: float | None = None
    overdispersion: float = 1.0

    @classmethod
    def of(cls, profiles: Profiles, items: np.ndarray) -> "PopularityPrior":
        """Estimate mean and variance of these items, from a sample where profiles are many."""
        rows = spaced(len(profiles.users_), max(1, PRIOR_SAMPLE // items.size))
        sums, squares = np.zeros(items.size), np.zeros(items.size)
        for part in parts(rows, max(1, BLOCK // items.size)):
            members = memberships(profiles, items, part)
            sums += members.sum(axis=0)
            squares += (members**2).sum(axis=0)
        mean = sums / rows.size
        return cls(mean, np.maximum(squares / rows.size - mean**2, 0.0))

    def fitted(
        self, profiles: Profiles, items: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> "PopularityPrior":
        """Return the prior with b and c estimated from these neighbours; both 1 if too few."""
        twice = (weights[:, ::2] > 0).any(axis=1) & (weights[:, 1::2] > 0).any(axis=1)
        most = float(self._bernoulli_variance.sum()) * int(twice.sum())
        if not most:
            return replace(self, between=1.0)
        halves, sampling = [], 0.0
        for half in (slice(0, None, 2), slice(1, None, 2)):
            part = weights[twice, half] / weights[twice, half].sum(axis=1, keepdims=True)
            means = weighted_memberships(profiles, rows[twice, half], part, items)
            halves.append(means - self.mean)
            sampling += float((self.variance * _squares(part)).sum())
        between = float((halves[0] * halves[1]).sum()) / most
        overdispersion = float(((halves[0] - halves[1]) ** 2).sum()) / max(sampling, TINY)
        return replace(self, between=min(max(between, 0.0), 1.0), overdispersion=overdispersion)

    def blended(self, means: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return shrunken means; the population mean for a row without neighbours."""
        estimates = means
        if self.between is not None:
            signal = self.between * self._bernoulli_variance
            noise = self.overdispersion * self.variance * _squares(weights)
            trust = signal / (signal + noise + TINY)
            estimates = self.mean + trust * (means - self.mean)
        alone = ~weights.any(axis=1, keepdims=True)
        return np.where(alone, self.mean, estimates)

    def at(self, columns: np.ndarray | slice) -> "PopularityPrior":
        """Return the prior of some of the items."""
        return replace(self, mean=self.mean[columns], variance=self.variance[columns])

    @property
    def _bernoulli_variance(self) -> np.ndarray:
        """p (1 - p), with p clipped to [0, 1]."""
        within = np.clip(self.mean, 0.0, 1.0)
        return np.asarray(within * (1 - within))


def weighted_memberships(
    profiles: Any, rows: np.ndarray, weights: np.ndarray, items: np.ndarray
) -> np.ndarray:
    """Return out[q, i] = sum over k of weights[q, k] * membership of item i in row rows[q, k].

    Profiles with a faster way have a method `sums`.
    """
    if hasattr(profiles, "sums"):
        return np.asarray(profiles.sums(rows, weights, items))
    out = np.zeros((len(rows), items.size))
    for part in parts(np.arange(len(rows)), _abreast(profiles, rows.shape[1], items.size)):
        out[part] = _product(profiles, rows[part], weights[part], items)
    return out


def memberships(profiles: Profiles, items: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the profiles' memberships, 0 where a release has no estimate."""
    return np.asarray(np.nan_to_num(profiles.memberships(items, rows), nan=0.0))


def spaced(size: int, most: int) -> np.ndarray:
    """Return at most `most` evenly spaced numbers below `size`."""
    count = min(size, most)
    return np.arange(count) * size // max(count, 1)


def _product(
    profiles: Profiles, rows: np.ndarray, weights: np.ndarray, items: np.ndarray
) -> np.ndarray:
    """Return weighted memberships of one batch by a sparse matrix product."""
    from scipy.sparse import csr_array

    there = weights != 0
    if not there.any():
        return np.zeros((len(rows), items.size))
    known, back = np.unique(rows[there], return_inverse=True)
    ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    whose = csr_array((weights[there], back, ends), (len(rows), known.size))
    return np.asarray(whose @ memberships(profiles, items, known))


def _abreast(profiles: Profiles, neighbours: int, items: int) -> int:
    """Return how many queries to process at once, so that their memberships fit in a block."""
    if len(profiles.users_) * items <= BLOCK:
        return max(1, BLOCK // items)
    return max(1, BLOCK // (items * max(neighbours, 1)))


def parts(rows: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """Yield the rows, `step` at a time."""
    for start in range(0, rows.size, step):
        yield rows[start : start + step]


def _squares(weights: np.ndarray) -> np.ndarray:
    """Return the sum of squared weights of each row."""
    return np.asarray((weights**2).sum(axis=1, keepdims=True))

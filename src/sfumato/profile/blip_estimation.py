"""Estimates from flipped Bloom filters: profile sizes, items in common, and their variances."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.validation import fraction
from sfumato.kernels import profile_sets as filters
from sfumato.profile import bloom_occupancy as occupancy
from sfumato.profile.similarity import OverlapVariance, measured

__all__ = [
    "SURE",
    "AlignedFilterPairs",
    "FilterPairs",
    "FilterRanks",
    "Filters",
    "bounds",
    "size_variance",
]

LARGEST = 2.0**40  # no profile has more items
SURE = NormalDist().inv_cdf(0.975)  # 1.96 standard errors
STEPS = 100  # halvings of an interval that starts at LARGEST
# Prior mean of a squared cosine. A round number, chosen by MovieLens 100K, where the mean is 0.043
# and all values from 1/100 to 1/10 rank about equally well.
PRIOR = 1 / 20


class Filters(NamedTuple):
    """Flipped Bloom filters of one shape, and the sizes that their numbers of ones imply.

    sizes: number of items by thesis, equations (3.9) (debiasing) and (3.6) (occupancy); noise may
    make it negative; finite in a full filter. lengths: square roots of the sizes, each size at
    least 1 and at least its standard error, because dividing by a size that is not significantly
    above 0 would let noise decide which profiles are similar. empty: the fraction of bits that the
    size (at least 0) leaves empty.
    """

    bits: int
    hashes: int
    flip: float
    ones: np.ndarray
    sizes: np.ndarray
    lengths: np.ndarray
    empty: np.ndarray

    @classmethod
    def of(cls, bits: int, hashes: int, flip: float, ones: np.ndarray) -> "Filters":
        fraction = np.minimum(occupancy.true_share(ones / bits, flip), 1 - 0.5 / bits)
        sizes = np.asarray(occupancy.size_of_share(fraction, bits, hashes))
        likely = np.maximum(sizes, 0.0)
        error = np.sqrt(size_variance(likely, bits, hashes, flip))
        lengths = np.sqrt(np.maximum(sizes, np.maximum(error, 1.0)))
        empty = np.asarray(1 - occupancy.share_of_size(likely, bits, hashes))
        return cls(bits, hashes, flip, ones, sizes, lengths, empty)

    def rows(self, rows: Any) -> "Filters":
        """Select some of the filters."""
        return Filters(*self[:3], *(column[rows] for column in self[3:]))

    @property
    def log_missed(self) -> float:
        """Log-probability that an item leaves a given bit unset: thesis, equation (3.5)."""
        return math.log1p(-occupancy.codeword_share(self.bits, self.hashes))

    @property
    def noise(self) -> float:
        """Variance of one debiased bit, whatever its true value."""
        return _bit_variance(self.flip)


@dataclass(frozen=True)
class FilterPairs:
    """All pairs of filters here and there, with the number of ones that each pair has in common.

    Variances are by the delta method at the estimates, from the flips and from hash collisions.
    """

    here: Filters
    there: Filters
    both: np.ndarray

    @cached_property
    def empty(self) -> np.ndarray:
        """Fraction of bits set in neither before the flips: unbiased, but floored above 0.

        The sum over bits of (1 - p - b) (1 - q - c) / ((1 - 2 p) (1 - 2 q)).
        """
        left, slope, scale, least = _worth(self.here, self.there)
        out = left[:, np.newaxis] - slope * self.there.ones
        out += scale * self.both
        return np.asarray(np.maximum(out, least, out=out))

    @cached_property
    def inner(self) -> np.ndarray:
        """Estimated number of common items: both sizes minus the size of the union."""
        out = self.here.sizes[:, np.newaxis] + self.there.sizes
        out += -1 / self.here.log_missed * np.log(self.empty)
        return np.asarray(out)

    def estimate(self, metric: str) -> np.ndarray:
        return measured(metric, self.inner, *self._likely)

    def variance(self, metric: str) -> np.ndarray:
        return self._overlap_variance().of(metric, self.inner, *self._likely)

    @property
    def _likely(self) -> tuple[np.ndarray, np.ndarray]:
        """Sizes that similarities are relative to, as a column and a row."""
        return self.here.lengths[:, np.newaxis] ** 2, self.there.lengths**2

    def _overlap_variance(self) -> OverlapVariance:
        bits, hashes = self.here.bits, self.here.hashes
        a, b = np.maximum(self.here.sizes, 0.0)[:, np.newaxis], np.maximum(self.there.sizes, 0.0)
        common = np.clip(self.inner, 0.0, np.minimum(a, b))
        empty_here, empty_there = self.here.empty[:, np.newaxis], self.there.empty
        v, w = self.here.noise, self.there.noise
        # How much larger a size is for one more bit: 1 / (-log_missed empty).
        steep = -1 / self.here.log_missed
        f, g, h = steep / empty_here, steep / empty_there, steep / self.empty
        # A bit that is flipped here changes the union only where it is empty there.
        here = v * (f**2 + empty_there * h * (h - 2 * f))
        there = w * (g**2 + empty_here * h * (h - 2 * g))
        met = _collisions(common, bits, hashes)
        apart = _collisions(a + b - common, bits, hashes)
        apart = apart - _collisions(a, bits, hashes) - _collisions(b, bits, hashes)
        return OverlapVariance(
            inner=np.maximum((here + there + v * w * h**2) / bits + apart + 2 * met, 0.0),
            left=_error(self.here)[:, np.newaxis],
            right=_error(self.there),
            inner_left=v * f * (f - empty_there * h) / bits + met,
            inner_right=w * g * (g - empty_here * h) / bits + met,
            left_right=met,
        )


class FilterRanks(NamedTuple):
    """What the ranks of all filters there depend on, beside the bits in common with a query.

    kinds: one column for each number of ones that occurs, with this number, the size, the share of
    empty bits and the length. codes: the column of each filter.
    """

    there: Filters
    kinds: np.ndarray
    codes: np.ndarray

    @classmethod
    def of(cls, there: Filters) -> "FilterRanks":
        ones, codes = np.unique(there.ones, return_inverse=True)
        each = Filters.of(*there[:3], ones)
        kinds = np.stack([ones, each.sizes, each.empty, each.lengths])
        return cls(there, kinds, codes.astype(np.uint32))

    def queries(self, here: Filters, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """A row for each query, and what all pairs share; `nearest` of the kernels takes both.

        A similarity ranks by s / (s + variance / PRIOR) of itself, with s the product of both sizes
        and the variance that of the flips: the posterior mean if cosines were normal about 0 with
        mean square PRIOR. Without it, small profiles, which noise alters most, would rank first.
        """
        left, slope, scale, least = _worth(here, self.there)
        steep = -1 / here.log_missed
        weight = steep**2 / (here.bits * PRIOR)
        metrics = {"cosine": filters.COSINE, "jaccard": filters.JACCARD, "inner": filters.INNER}
        noise = here.noise, self.there.noise
        shared = np.array([slope, scale, least, steep, *noise, weight, metrics[metric]])
        return np.column_stack([left, here.sizes, here.empty, here.lengths]), shared


class AlignedFilterPairs(FilterPairs):
    """Only some pairs: each filter here against the one at the same position there."""

    @cached_property
    def empty(self) -> np.ndarray:
        left, slope, scale, least = _worth(self.here, self.there)
        return np.maximum(left - slope * self.there.ones + scale * self.both, least)

    @cached_property
    def inner(self) -> np.ndarray:
        steep = -1 / self.here.log_missed
        return np.asarray(self.here.sizes + self.there.sizes + steep * np.log(self.empty))

    @property
    def _likely(self) -> tuple[np.ndarray, np.ndarray]:
        return self.here.lengths**2, self.there.lengths**2


def _worth(here: Filters, there: Filters) -> tuple[np.ndarray, float, float, float]:
    """Coefficients of `empty`: offset per row, weights of a one and of a common one, floor."""
    p, q, bits = here.flip, there.flip, here.bits
    scale = 1 / (bits * (1 - 2 * p) * (1 - 2 * q)) if 0.5 not in (p, q) else math.nan
    left = (bits * (1 - p) - here.ones) * ((1 - q) * scale)
    return left, (1 - p) * scale, scale, 0.5 / bits


def _error(side: Filters) -> np.ndarray:
    return size_variance(np.maximum(side.sizes, 0.0), side.bits, side.hashes, side.flip)


def size_variance(sizes: np.ndarray, bits: int, hashes: int, flip: float) -> np.ndarray:
    """Variance of an estimated size, from the flips and the hash collisions."""
    fraction = occupancy.share_of_size(sizes, bits, hashes)
    steep = -1 / math.log1p(-occupancy.codeword_share(bits, hashes))
    by_flips = _bit_variance(flip) / bits * (steep / (1 - fraction)) ** 2
    return np.asarray(by_flips + _collisions(sizes, bits, hashes))


def _bit_variance(flip: float) -> float:
    """Variance p (1 - p) / (1 - 2 p)**2 of a debiased bit; NaN for p = 1/2."""
    return flip * (1 - flip) / (1 - 2 * flip) ** 2 if flip != 0.5 else math.nan


def _collisions(common: np.ndarray, bits: int, hashes: int) -> np.ndarray:
    """Covariance of the estimated sizes of two sets that have `common` items in common.

    bits (exp(t) - 1 - t) / hashes**2 for t = common hashes / bits hashes per bit: for one set,
    Whang, Vander-Zanden and Taylor 1990; for two, bits that are empty in both are exp(t) times as
    many as for disjoint sets.
    """
    thrown = common * (hashes / bits)
    return np.asarray(bits / hashes**2 * (np.expm1(thrown) - thrown))


def bounds(side: Filters, confidence: float, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """Confidence bounds of each size, with the number of ones taken as normal about its mean."""
    quantile = NormalDist().inv_cdf((1 + fraction.check(owner, "confidence", confidence)) / 2)
    observed, which = np.unique(side.ones, return_inverse=True)
    if side.flip == 0.5:
        return np.zeros(which.size), np.full(which.size, np.inf)

    def ends(deviations: float) -> np.ndarray:
        return _first(lambda n: _reached(side, n, deviations) >= observed, observed.size)[which]

    return ends(quantile), ends(-quantile)


def _reached(side: Filters, n: np.ndarray, deviations: float) -> np.ndarray:
    """Ones of a filter of n items, `deviations` standard deviations above their mean."""
    bits, p = side.bits, side.flip
    throws = n * side.hashes
    empty, two = (np.exp(throws * math.log1p(-k / bits)) for k in (1, 2))
    occupancy_variance = np.maximum(empty / bits + (1 - 1 / bits) * two - empty**2, 0.0)
    variance = p * (1 - p) / bits + (1 - 2 * p) ** 2 * occupancy_variance
    return np.asarray(bits * (p + (1 - 2 * p) * (1 - empty) + deviations * np.sqrt(variance)))


def _first(predicate: Callable[[np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """Smallest n from which the predicate is true, by bisection; infinite where it never is."""
    low, high = np.zeros(size), np.full(size, LARGEST)
    never, at_once = ~predicate(high), predicate(low)
    for _ in range(STEPS):
        middle = (low + high) / 2
        fine = predicate(middle)
        low, high = np.where(fine, low, middle), np.where(fine, middle, high)
    return np.where(at_once, 0.0, np.where(never, np.inf, high))

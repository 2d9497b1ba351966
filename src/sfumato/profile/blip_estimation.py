"""What counts of flipped bits say of profiles: sizes, items in common, and how surely."""

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

__all__ = ["SURE", "AlignedFilterPairs", "FilterPairs", "Filters", "bounds", "size_variance"]

LARGEST = 2.0**40  # no profile has more items
SURE = NormalDist().inv_cdf(0.975)  # 1.96 standard errors
STEPS = 100  # halvings of an interval that starts at LARGEST
# What the square of a cosine is on average, supposed before any bit is seen. A round number,
# chosen beside MovieLens 100K, where the mean is 0.043 and all from 1/100 to 1/10 rank about alike.
PRIOR = 1 / 20


class Filters(NamedTuple):
    """Flipped Bloom filters of one kind, and what their ones say of each.

    sizes: items by (3.9) and (3.6), which noise may put below 0; finite in a full filter. lengths:
    square roots of sizes, of at least one item and at least the size's own error: where a size
    cannot be told from 0, dividing by it would let noise decide who is alike. empty: the share of
    bits that such a size leaves empty, from 0 items up.
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
        share = np.minimum(occupancy.true_share(ones / bits, flip), 1 - 0.5 / bits)
        sizes = np.asarray(occupancy.size_of_share(share, bits, hashes))
        likely = np.maximum(sizes, 0.0)
        error = np.sqrt(size_variance(likely, bits, hashes, flip))
        lengths = np.sqrt(np.maximum(sizes, np.maximum(error, 1.0)))
        empty = np.asarray(1 - occupancy.share_of_size(likely, bits, hashes))
        return cls(bits, hashes, flip, ones, sizes, lengths, empty)

    def rows(self, rows: Any) -> "Filters":
        """Some of them."""
        return Filters(*self[:3], *(column[rows] for column in self[3:]))

    @property
    def log_missed(self) -> float:
        """The logarithm of the chance that an item misses a given bit: (3.5)."""
        return math.log1p(-occupancy.codeword_share(self.bits, self.hashes))

    @property
    def noise(self) -> float:
        """The variance of one debiased bit, whatever it was."""
        return _bit_variance(self.flip)


@dataclass(frozen=True)
class FilterPairs:
    """Filters against others, `both` of whose ones they have in common: pairs of rows.

    Errors by the delta method at the estimates, from the flips and from the collisions of hashes.
    """

    here: Filters
    there: Filters
    both: np.ndarray

    @cached_property
    def empty(self) -> np.ndarray:
        """The share of bits set in neither before the flips: unbiased, but kept above 0.

        The sum over bits of (1 - p - b) (1 - q - c) / ((1 - 2 p) (1 - 2 q)).
        """
        left, slope, scale, least = self._worth
        out = np.empty(self.both.shape)
        filters.empty(self.both, left, self.there.ones, slope, scale, least, out)
        return out

    @cached_property
    def inner(self) -> np.ndarray:
        """How many items are in both: both sizes less that of the union."""
        out = np.asarray(np.log(self.empty))
        filters.shared(self.here.sizes, self.there.sizes, -1 / self.here.log_missed, out)
        return out

    def rank(self, metric: str) -> np.ndarray:
        """What orders pairs: their items in common as estimated, or a metric of these shrunk.

        Shrunk to s / (s + variance / PRIOR) of the estimate, s being the product of both sizes, and
        the variance that of the flips: the posterior mean if cosines were normal about 0 with mean
        square PRIOR. By estimates alone, those would come first whom noise alters most: the small.
        """
        if metric == "inner":
            return self.inner
        steep, out = -1 / self.here.log_missed, np.empty(self.both.shape)
        left, right = ((of.empty, of.noise, of.lengths) for of in (self.here, self.there))
        weight = steep**2 / (self.here.bits * PRIOR)
        filters.shrunk(self.inner, self.empty, *left, *right, weight, metric == "jaccard", out)
        return out

    def estimate(self, metric: str) -> np.ndarray:
        return measured(metric, self.inner, *self._likely)

    def variance(self, metric: str) -> np.ndarray:
        return self._spread().of(metric, self.inner, *self._likely)

    @property
    def _worth(self) -> tuple[np.ndarray, float, float, float]:
        """What makes up `empty`: a number for each here, the worth of ones there and of those in
        both, and the least it may be."""
        p, q, bits = self.here.flip, self.there.flip, self.here.bits
        scale = 1 / (bits * (1 - 2 * p) * (1 - 2 * q)) if 0.5 not in (p, q) else math.nan
        left = (bits * (1 - p) - self.here.ones) * ((1 - q) * scale)
        return left, (1 - p) * scale, scale, 0.5 / bits

    @property
    def _likely(self) -> tuple[np.ndarray, np.ndarray]:
        """The sizes that similarities are relative to, down and across."""
        return self.here.lengths[:, np.newaxis] ** 2, self.there.lengths**2

    def _spread(self) -> OverlapVariance:
        bits, hashes = self.here.bits, self.here.hashes
        a, b = np.maximum(self.here.sizes, 0.0)[:, np.newaxis], np.maximum(self.there.sizes, 0.0)
        common = np.clip(self.inner, 0.0, np.minimum(a, b))
        empty_here, empty_there = self.here.empty[:, np.newaxis], self.there.empty
        v, w = self.here.noise, self.there.noise
        # How much larger a size is for one more bit: 1 / (-log_missed empty).
        steep = -1 / self.here.log_missed
        f, g, h = steep / empty_here, steep / empty_there, steep / self.empty
        # A bit that is flipped here tells of the union where it is empty there.
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


class AlignedFilterPairs(FilterPairs):
    """Some pairs alone: each filter here against the one at its place there."""

    @cached_property
    def empty(self) -> np.ndarray:
        left, slope, scale, least = self._worth
        return np.maximum(left - slope * self.there.ones + scale * self.both, least)

    @cached_property
    def inner(self) -> np.ndarray:
        steep = -1 / self.here.log_missed
        return np.asarray(self.here.sizes + self.there.sizes + steep * np.log(self.empty))

    @property
    def _likely(self) -> tuple[np.ndarray, np.ndarray]:
        return self.here.lengths**2, self.there.lengths**2


def _error(side: Filters) -> np.ndarray:
    return size_variance(np.maximum(side.sizes, 0.0), side.bits, side.hashes, side.flip)


def size_variance(sizes: np.ndarray, bits: int, hashes: int, flip: float) -> np.ndarray:
    """The variance of an estimated size, of the flips and of the collisions."""
    share = occupancy.share_of_size(sizes, bits, hashes)
    steep = -1 / math.log1p(-occupancy.codeword_share(bits, hashes))
    told = _bit_variance(flip) / bits * (steep / (1 - share)) ** 2
    return np.asarray(told + _collisions(sizes, bits, hashes))


def _bit_variance(flip: float) -> float:
    """p (1 - p) / (1 - 2 p)**2: that of a debiased bit; NaN for fair coins."""
    return flip * (1 - flip) / (1 - 2 * flip) ** 2 if flip != 0.5 else math.nan


def _collisions(common: np.ndarray, bits: int, hashes: int) -> np.ndarray:
    """The covariance of the sizes of two sets, as their bits say, with so many items in common.

    bits (exp(t) - 1 - t) / hashes**2 for t = common hashes / bits throws a bit: of one set, Whang,
    Vander-Zanden and Taylor 1990; of two, bits that are empty in both are exp(t) times as many as
    if the sets were apart.
    """
    thrown = common * (hashes / bits)
    return np.asarray(bits / hashes**2 * (np.expm1(thrown) - thrown))


def bounds(side: Filters, confidence: float, owner: str) -> tuple[np.ndarray, np.ndarray]:
    """The least and most items that go with each number of ones, nearly normal about its mean."""
    reach = NormalDist().inv_cdf((1 + fraction.check(owner, "confidence", confidence)) / 2)
    seen, which = np.unique(side.ones, return_inverse=True)
    if side.flip == 0.5:
        return np.zeros(which.size), np.full(which.size, np.inf)

    def ends(deviations: float) -> np.ndarray:
        return _first(lambda n: _reached(side, n, deviations) >= seen, seen.size)[which]

    return ends(reach), ends(-reach)


def _reached(side: Filters, n: np.ndarray, deviations: float) -> np.ndarray:
    """The ones of a filter of n items, so many deviations above their mean."""
    bits, p = side.bits, side.flip
    throws = n * side.hashes
    empty, two = (np.exp(throws * math.log1p(-k / bits)) for k in (1, 2))
    spread = np.maximum(empty / bits + (1 - 1 / bits) * two - empty**2, 0.0)
    variance = p * (1 - p) / bits + (1 - 2 * p) ** 2 * spread
    return np.asarray(bits * (p + (1 - 2 * p) * (1 - empty) + deviations * np.sqrt(variance)))


def _first(holds: Callable[[np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """The least n of each from which on it holds; infinite where it never does."""
    low, high = np.zeros(size), np.full(size, LARGEST)
    never, at_once = ~holds(high), holds(low)
    for _ in range(STEPS):
        middle = (low + high) / 2
        fine = holds(middle)
        low, high = np.where(fine, low, middle), np.where(fine, middle, high)
    return np.where(at_once, 0.0, np.where(never, np.inf, high))

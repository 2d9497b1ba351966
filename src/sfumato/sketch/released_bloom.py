"""Released Bloom filters: which keys are likely in a set, and how many, from flipped bits."""

import math
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato._require import one_of, whole
from sfumato.hashing import KeyColumn
from sfumato.kernels import bloom
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._responses import Answered, limits

__all__ = ["BITS", "HASHES", "LAYOUT", "LINE", "ReleasedBloomFilter"]

BITS, HASHES, LAYOUT = whole(8, 2**32), whole(1, 64), one_of(("plain", "blocked"))
LINE = 512  # bits of a cache line, the blocked layout's unit
FEW = 4096  # bits up to which all numbers of flips are gone through


class ReleasedBloomFilter(Answered):
    """A Bloom filter every bit of which was flipped with a known probability, for good.

    Made by `BloomFilter.release`. Guarantee: epsilon-differential privacy with a public seed, as
    its `statement` says; estimates are debiased, and their errors include the flips.
    Parameters: bits, hashes, seed and layout of the filter; the probability is the statement's.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import BloomFilter
    >>> seen = BloomFilter(4096, 4).update(range(200))
    >>> told = seen.release(epsilon=8, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate_size() - 200) <= told.error_bound(0.9999))
    True

    Thesis (3.4), BLIP; Alaggan, Gambs and Kermarrec 2012.
    """

    bits: Annotated[int, BITS]
    hashes: Annotated[int, HASHES]
    seed: Annotated[int, SEED]
    layout: Annotated[str, LAYOUT]
    _words: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "BloomFilter"

    def scores(self, keys: Any) -> np.ndarray:
        """How much likelier a key's bits are if it is in the set than if not: a natural logarithm.

        Other keys meet ones as often as the whole filter shows them. A bit that the key meets twice
        counts twice. Add the logarithm of the prior odds to get that of the posterior ones.
        """
        column = keys if isinstance(keys, KeyColumn) else KeyColumn(keys)
        found = np.empty(column.size, np.uint8)
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for start, hashed in column.blocks(self.seed):
            out = found[start : start + hashed.size]
            if self.layout == "blocked":
                bloom.hits_blocked(self._words, self.hashes, hashed, out)
            else:
                bloom.hits(self._words, self.bits, self.hashes, hashed, scratch, out)
        return self._scores[found]

    def contains(self, keys: Any, threshold: float = 0.0) -> np.ndarray:
        """True for keys whose score is at least the threshold; `rates` says how often wrongly."""
        return np.asarray(self.scores(keys) >= _finite(threshold))

    estimate = contains

    def rates(self, threshold: float = 0.0) -> tuple[float, float]:
        """The chances that `contains` finds a key that is not in the set, and misses one that is.

        The first is exact for the bits as released; the second, over the flips, up to
        hashes / (8 bits) in filters of more than 4096 bits.
        """
        needed = int(np.count_nonzero(self._scores < _finite(threshold)))
        shares, weights = np.unique(self._line_counts(), return_counts=True)
        wrong = weights @ _at_least(needed, self.hashes, shares / self._unit) / weights.sum()
        return float(wrong), 1 - self._found(needed)

    def estimate_size(self) -> float:
        """How many different keys the set holds, from the debiased share of ones."""
        return self._size_of(self._share())

    def error_bound(self, confidence: float = 0.99) -> float:
        """How many keys the size may be off by, with about this probability.

        The share of ones is nearly normal, with the variance of the flips and of the collisions.
        """
        low, high = limits(self._law, self._ones() / self.bits, confidence, type(self).__name__)
        here = self.estimate_size()
        return max(high - here, here - low)

    def inner(self, other: Self) -> float:
        """How many bits were set in both filters before the flips; unbiased."""
        self._check_same(other, "compare")
        both = int(np.bitwise_count(self._words & other._words).sum())
        p, q = self._flip, other._flip
        noisy = both - q * self._ones() - p * other._ones() + self.bits * p * q
        return noisy / ((1 - 2 * p) * (1 - 2 * q))

    def union_size(self, other: Self) -> float:
        """How many different keys both sets hold together."""
        both = self.inner(other) / self.bits
        return self._size_of(self._share() + other._share() - both)

    def intersection(self, other: Self) -> float:
        """How many keys both sets share, at least 0."""
        union = self.union_size(other)
        return max(self.estimate_size() + other.estimate_size() - union, 0.0)

    def similarity(self, other: Self) -> float:
        """The Jaccard similarity: the shared part of the union, 0 to 1 (1 where that is empty)."""
        union = self.union_size(other)
        return min(self.intersection(other) / union, 1.0) if union > 0 else 1.0

    def _share(self) -> float:
        """The share of bits that were set, debiased; noise may put it below 0 or above 1."""
        return (self._ones() / self.bits - self._flip) / (1 - 2 * self._flip)

    def _size_of(self, share: float) -> float:
        share = min(max(share, 0.0), 1 - 0.5 / self.bits)
        return float(math.log1p(-share) / self._log_empty(1))

    def _log_empty(self, count: int) -> float:
        """The logarithm of the chance that a key misses so many given bits of a line."""
        met = -math.expm1(self.hashes * math.log1p(-count / self._unit))
        return math.log1p(-met * self._unit / self.bits)

    def _law(self, n: float) -> tuple[float, float]:
        """Mean and deviation of the share of ones after n keys."""
        unit, bits, p = self._unit, self.bits, self._flip
        empty, same = math.exp(n * self._log_empty(1)), math.exp(n * self._log_empty(2))
        apart = 0.0  # two bits in different lines, which one key cannot both set
        if bits > unit:
            met = -math.expm1(self.hashes * math.log1p(-1 / unit))
            apart = (1 - unit / bits) * math.exp(n * math.log1p(-2 * met * unit / bits))
        spread = max(empty / bits + (unit - 1) / bits * same + apart - empty**2, 0.0)
        variance = p * (1 - p) / bits + (1 - 2 * p) ** 2 * spread
        return p + (1 - 2 * p) * (1 - empty), math.sqrt(variance)

    def _found(self, needed: int) -> float:
        """The chance that a key in the set meets so many ones: bits it meets may be flipped."""
        p, unit = self._flip, self._unit
        if unit > FEW:
            return float(_at_least(needed, self.hashes, np.array([1 - p]))[0])
        flipped = np.arange(unit + 1)
        factorials = np.cumsum(np.log(np.maximum(flipped, 1)))
        choose = factorials[-1] - factorials - factorials[::-1]
        chance = np.exp(choose + flipped * math.log(p) + (unit - flipped) * math.log1p(-p))
        found = float(chance @ _at_least(needed, self.hashes, 1 - flipped / unit))
        return min(found / float(chance.sum()), 1.0)

    @property
    def _unit(self) -> int:
        """The bits among which a key's places are drawn."""
        return LINE if self.layout == "blocked" else self.bits

    @cached_property
    def _scores(self) -> np.ndarray:
        """The score by the number of ones that a key meets."""
        p = self._flip
        share = min(max(self._ones() / self.bits, p), 1 - p)
        ones = np.arange(self.hashes + 1)
        return ones * math.log((1 - p) / share) + ones[::-1] * math.log(p / (1 - share))

    def _ones(self) -> int:
        return int(np.bitwise_count(self._words).sum())

    def _line_counts(self) -> np.ndarray:
        if self.layout == "plain":
            return np.array([self._ones()])
        return np.asarray(np.bitwise_count(self._words).reshape(-1, 8).sum(axis=1))

    def _layout(self) -> dict[str, Cells]:
        return {"_words": Cells(np.uint64, (math.ceil(self.bits / 64),), "")}

    def _check_parameters(self) -> None:
        if self.layout == "blocked" and self.bits % LINE:
            raise ValueError("bits must be a multiple of 512 when blocked.")

    def _check_state(self) -> None:
        spare = -self.bits % 64
        if spare and self._words[-1] >> np.uint64(64 - spare):
            raise ValueError("a bit is set beyond the last.")


def _at_least(needed: int, trials: int, shares: np.ndarray) -> np.ndarray:
    """The chance that so many of the trials succeed, for each share of successes."""
    out = np.zeros(shares.size)
    for ones in range(max(needed, 0), trials + 1):
        out += math.comb(trials, ones) * shares**ones * (1 - shares) ** (trials - ones)
    return np.minimum(out, 1.0)


def _finite(threshold: Any) -> float:
    if isinstance(threshold, bool | str) or not math.isfinite(threshold):
        raise ValueError(
            f"ReleasedBloomFilter: threshold must be a finite number, not {threshold!r}."
        )
    return float(threshold)

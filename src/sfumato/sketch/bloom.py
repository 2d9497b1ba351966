"""Bloom filters: was this key seen? Never a false no, rarely a false yes, a few bits a key.

Released Bloom filters: which keys are likely in a set, and how many, from flipped bits.
"""

import functools
import math
from functools import cached_property
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato.core.hashing import KeyColumn
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import bloom
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import SEED, KeyedSketch
from sfumato.sketch.response_release import Answered, bits_answered, limits

__all__ = ["BITS", "HASHES", "LAYOUT", "LINE", "BloomFilter", "ReleasedBloomFilter", "best_size"]

BITS, HASHES, LAYOUT = integer(8, 2**32), integer(1, 64), one_of(("plain", "blocked"))
LINE = 512  # bits of a cache line, the blocked layout's unit
FEW = 4096  # bits up to which all numbers of flips are gone through


class ReleasedBloomFilter(Answered):
    """A Bloom filter every bit of which was flipped with a known probability, for good.

    Made by `BloomFilter.release`.

    bits, hashes, seed and layout of the filter; the probability is the statement's.

    Notes
    -----
    **Guarantee.** Epsilon-differential privacy with a public seed, as its `statement` says;
    estimates are debiased, and their errors include the flips.

    References
    ----------
    .. [1] Thesis (3.4), BLIP; Alaggan, Gambs and Kermarrec 2012.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import BloomFilter
    >>> seen = BloomFilter(4096, 4).update(range(200))
    >>> told = seen.release(epsilon=8, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate_size() - 200) <= told.error_bound(0.9999))
    True
    """

    bits: Annotated[int, BITS]
    hashes: Annotated[int, HASHES]
    seed: Annotated[int, SEED]
    layout: Annotated[str, LAYOUT]
    _words: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "BloomFilter"

    def scores(self, keys: Column) -> np.ndarray:
        """How much likelier a key's bits are if it is in the set than if not: a natural logarithm.

        Other keys meet ones as often as the whole filter shows them. A bit that the key meets twice
        counts twice. Add the logarithm of the prior odds to get that of the posterior ones.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            How much likelier a key's bits are if it is in the set than if not: a natural logarithm.
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

    def contains(self, keys: Column, threshold: float = 0.0) -> np.ndarray:
        """True for keys whose score is at least the threshold; `rates` says how often wrongly.

        Parameters
        ----------
        keys : array_like
            TODO.
        threshold : float, default=0.0
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        return np.asarray(self.scores(keys) >= _finite(threshold))

    estimate = contains

    def rates(self, threshold: float = 0.0) -> tuple[float, float]:
        """The chances that `contains` finds a key that is not in the set, and misses one that is.

        The first is exact for the bits as released; the second, over the flips, up to hashes / (8
        bits) in filters of more than 4096 bits.

        Parameters
        ----------
        threshold : float, default=0.0
            TODO.

        Returns
        -------
        tuple
            The chances that `contains` finds a key that is not in the set, and misses one that is.
        """
        needed = int(np.count_nonzero(self._scores < _finite(threshold)))
        shares, weights = np.unique(self._line_counts(), return_counts=True)
        wrong = weights @ _at_least(needed, self.hashes, shares / self._unit) / weights.sum()
        return float(wrong), 1 - self._found(needed)

    def estimate_size(self) -> float:
        """How many different keys the set holds, from the debiased share of ones.

        Returns
        -------
        float
            How many different keys the set holds, from the debiased share of ones.
        """
        return self._size_of(self._share())

    def error_bound(self, confidence: float = 0.99) -> float:
        """How many keys the size may be off by, with about this probability.

        The share of ones is nearly normal, with the variance of the flips and of the collisions.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            How many keys the size may be off by, with about this probability.
        """
        low, high = limits(
            self._distribution, self._ones() / self.bits, confidence, type(self).__name__
        )
        here = self.estimate_size()
        return max(high - here, here - low)

    def inner(self, other: Self) -> float:
        """How many bits were set in both filters before the flips; unbiased.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            How many bits were set in both filters before the flips; unbiased.
        """
        self._check_same(other, "compare")
        both = int(np.bitwise_count(self._words & other._words).sum())
        p, q = self._flip, other._flip
        noisy = both - q * self._ones() - p * other._ones() + self.bits * p * q
        return noisy / ((1 - 2 * p) * (1 - 2 * q))

    def union_size(self, other: Self) -> float:
        """How many different keys both sets hold together.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            How many different keys both sets hold together.
        """
        both = self.inner(other) / self.bits
        return self._size_of(self._share() + other._share() - both)

    def intersection(self, other: Self) -> float:
        """How many keys both sets share, at least 0.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            How many keys both sets share, at least 0.
        """
        union = self.union_size(other)
        return max(self.estimate_size() + other.estimate_size() - union, 0.0)

    def similarity(self, other: Self) -> float:
        """The Jaccard similarity: the shared part of the union, 0 to 1 (1 where that is empty).

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The Jaccard similarity: the shared part of the union, 0 to 1 (1 where that is empty).
        """
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

    def _distribution(self, n: float) -> tuple[float, float]:
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


SMALL = 1024  # bits up to which the rate is computed exactly


class BloomFilter(KeyedSketch):
    """A set of keys that answers "seen" or "not seen".

    Parameters
    ----------
    bits : int
        Up to 2**32.
    hashes : int, default=7
        Bits set per key.
    seed : int, default=0
        Of all hashes.
    layout : str, default="plain"
        "plain" or "blocked" (all bits of a key in one cache line: faster, a little less exact; bits
        is a multiple of 512). Merges exactly. Nothing can overflow.

    Notes
    -----
    **Guarantee.** A seen key is always found; another is found with probability
    `false_positive_rate(n)` after n different keys, `error_bound()` as the filter is now.

    References
    ----------
    .. [1] Bloom 1970; (1 - exp(-kn/m))**k: thesis 2.3.2.2; blocked: Putze, Sanders and Singler
       2007.

    Examples
    --------
    >>> seen = BloomFilter.from_capacity(1000, 0.01).update(["tea", "milk"])
    >>> seen.contains(["tea", "rum"])
    array([ True, False])
    """

    bits: Annotated[int, BITS]
    hashes: Annotated[int, HASHES]
    seed: Annotated[int, SEED]
    layout: Annotated[str, LAYOUT]
    keys: str
    _words: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _idempotent = True
    _scalars = {"keys": ""}

    def __init__(self, bits: int, hashes: int = 7, *, seed: int = 0, layout: str = "plain") -> None:
        self._set_parameters(bits=bits, hashes=hashes, seed=seed, layout=layout)
        self._allocate()

    @classmethod
    def from_capacity(
        cls, n: int, false_positive_rate: float, *, seed: int = 0, layout: str = "plain"
    ) -> Self:
        """The smallest filter that after n different keys finds others at most at this rate.

        Parameters
        ----------
        n : int
            TODO.
        false_positive_rate : float
            TODO.
        seed : int, default=0
            TODO.
        layout : str, default="plain"
            TODO.

        Returns
        -------
        Self
            The smallest filter that after n different keys finds others at most at this rate.
        """
        n = integer(1, 2**32).check("BloomFilter", "n", n)
        rate = fraction.check("BloomFilter", "false_positive_rate", false_positive_rate)
        bits, hashes = best_size(n, rate, LAYOUT.check("BloomFilter", "layout", layout))
        return cls(bits, hashes, seed=seed, layout=layout)

    def update(self, keys: Column) -> Self:
        """Put every key in the set.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for _, hashed in self._hashes(column):
            if self.layout == "blocked":
                bloom.insert_blocked(self._words, self.hashes, hashed)
            else:
                bloom.insert(self._words, self.bits, self.hashes, hashed, scratch)
        self._note_keys(column)
        return self

    def contains(self, keys: Column) -> np.ndarray:
        """True for every key that was seen, and by chance for a few others.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        column = self._key_column(keys)
        out = np.empty(column.size, np.uint8)
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for rows, hashed in self._hashes(column):
            if self.layout == "blocked":
                bloom.find_blocked(self._words, self.hashes, hashed, out[rows])
            else:
                bloom.find(self._words, self.bits, self.hashes, hashed, scratch, out[rows])
        return out.view(np.bool_)

    estimate = contains

    def estimate_size(self) -> float:
        """How many different keys the set holds, from the share of bits that are set.

        Returns
        -------
        float
            How many different keys the set holds, from the share of bits that are set.
        """
        if self.layout == "blocked":
            lines = self._line_counts() / LINE
            empty = np.log1p(-np.minimum(lines, 1 - 0.5 / LINE)).sum()
            return float(empty / (self.hashes * math.log1p(-1 / LINE)))
        share = min(self._ones() / self.bits, 1 - 0.5 / self.bits)
        return float(math.log1p(-share) / (self.hashes * math.log1p(-1 / self.bits)))

    def false_positive_rate(self, n: int) -> float:
        """The chance of a false yes after n different keys.

        Parameters
        ----------
        n : int
            TODO.

        Returns
        -------
        float
            The chance of a false yes after n different keys.
        """
        n = integer(0).check("BloomFilter", "n", n)
        unit = 1 if self.layout == "plain" else LINE
        return _rate(n, self.bits // unit, self.hashes, unit)

    def error_bound(self, confidence: float = 0.99) -> float:
        """The chance that a key that was not seen is found, given the bits that are set now.

        It is the same at every confidence: the bits are known, and with them the chance.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The chance that a key that was not seen is found, given the bits that are set now.
        """
        fraction.check("BloomFilter", "confidence", confidence)
        if self.layout == "blocked":
            return float(((self._line_counts() / LINE) ** self.hashes).mean())
        return float((self._ones() / self.bits) ** self.hashes)

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedBloomFilter:
        """A private copy in which every bit is flipped with the same probability p.

        epsilon above 0;

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            TODO.
        delta : float, default=0.0
            Which is not spent.
        **options : dict
            Ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md). Every
            hash costs flips: up to an epsilon of about 6, `contains` errs least in filters of one.

        Returns
        -------
        ReleasedBloomFilter
            A private copy in which every bit is flipped with the same probability p.

        Notes
        -----
        **Guarantee.** Epsilon-private for one unit, with a public seed. A key that is added or
        removed changes at most `hashes` bits, whichever others are there, and a flipped bit tells
        its value by a factor of at most (1 - p) / p; so epsilon = hashes events ln((1 - p) / p),
        where an exchanged key is two events: thesis (3.4), p = 1 / (1 + exp(epsilon / hashes)),
        rounded up.

        Examples
        --------
        >>> seen = BloomFilter(512, 2).update(["tea", "milk"])
        >>> round(float(seen.release(epsilon=2).flip_probability), 4)
        0.2689
        """
        request = ReleaseRequest.of("BloomFilter", epsilon, delta, options)
        answer = bits_answered(request, min(self.hashes * request.events, self.bits))
        p = answer.flip_probability
        how = f"every bit flipped with probability {float(p):.6g}, {answer.cells} bits a unit"

        def flipped(source: Source) -> dict[str, np.ndarray]:
            return {"_words": self._words ^ noise.flips(p, self.bits, source=source)}

        plan = CalibratedRelease(ReleasedBloomFilter, self.parameters, answer.loss(), how, flipped)
        return plan.publish(request)

    def _ones(self) -> int:
        return int(np.bitwise_count(self._words).sum())

    def _line_counts(self) -> np.ndarray:
        return np.asarray(np.bitwise_count(self._words).reshape(-1, 8).sum(axis=1))

    def _check_parameters(self) -> None:
        if self.layout == "blocked" and self.bits % LINE:
            raise ValueError(
                f"BloomFilter: bits must be a multiple of 512 when blocked, not {self.bits}."
            )

    def _check_state(self) -> None:
        super()._check_state()
        spare = -self.bits % 64
        if spare and self._words[-1] >> np.uint64(64 - spare):
            raise ValueError("a bit is set beyond the last.")

    def _layout(self) -> dict[str, Cells]:
        return {"_words": Cells(np.uint64, (math.ceil(self.bits / 64),), "or")}


def best_size(n: int, rate: float, layout: str = "plain") -> tuple[int, int]:
    """The fewest bits, and their hashes per key, that keep the rate after n different keys."""
    unit = 1 if layout == "plain" else LINE
    most = min(64, round(-math.log2(rate)) + 1)  # the optimum is -log2(rate), fewer when blocked
    units, hashes = min(_units(n, rate, k, unit) for k in range(max(1, most // 2), most + 1))
    return max(8, units * unit), hashes


def _rate(n: int, units: int, hashes: int, unit: int) -> float:
    """The false positive rate: bits are `units` of one bit, or lines with a Poisson load each."""
    if n == 0:
        return 0.0
    if n * hashes > 32 * units * unit:
        return 1.0  # to twelve digits, and far from any rate that is wanted
    if unit == 1:
        if units <= SMALL:
            return _exact_rate(n, units, hashes)
        return float(_near_rate(np.array([n]), units, hashes)[0])
    load = n / units
    keys = np.arange(int(load + 12 * math.sqrt(load + 1)) + 20)
    factorials = np.cumsum(np.log(np.maximum(keys, 1)))
    chance = np.exp(keys * math.log(load) - load - factorials)
    return float((chance * _near_rate(keys, unit, hashes)).sum())


def _near_rate(keys: np.ndarray, bits: int, hashes: int) -> np.ndarray:
    """E (ones / bits)**k to second order in the spread of the ones; to first it is too low."""
    throws = hashes * keys
    empty, two = np.exp(throws * math.log1p(-1 / bits)), np.exp(throws * math.log1p(-2 / bits))
    share = 1 - empty
    spread = np.maximum(empty / bits + (1 - 1 / bits) * two - empty**2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        more = hashes * (hashes - 1) / 2 * spread / share**2
    return np.where(keys > 0, share**hashes * (1 + more), 0.0)


@functools.lru_cache(4096)
def _exact_rate(n: int, bits: int, hashes: int) -> float:
    """The chance that k more throws into `bits` bins, after kn throws, all meet full ones.

    Over the number d of different bins they meet, and by inclusion and exclusion over those of them
    that are empty; in integers, since the terms cancel.
    """
    throws, split = hashes * n, [0, 1]  # ways to split the throws so far into d groups
    for _ in range(hashes - 1):
        split = [0, *(d * split[d] + split[d - 1] for d in range(1, len(split))), split[-1]]
    total = 0
    for empty in range(min(hashes, bits) + 1):
        ways = sum(
            split[d] * math.perm(bits, d) * math.comb(d, empty)
            for d in range(max(empty, 1), min(hashes, bits) + 1)
        )
        total += (-1) ** empty * ways * (bits - empty) ** throws
    return float(total / bits ** (throws + hashes))


def _units(n: int, rate: float, hashes: int, unit: int) -> tuple[int, int]:
    """The fewest units that keep the rate with so many hashes, and the hashes."""
    # No set of n keys with this rate fits n log2(1 / rate) bits; where few bits are left the exact
    # rate takes long, and is not needed far below the answer.
    low = int(n * -math.log2(rate) / 2) // unit
    if low == 0 or _rate(n, low, hashes, unit) <= rate:
        low = 0
    high = max(1, 2 * low)
    while _rate(n, high, hashes, unit) > rate:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _rate(n, middle, hashes, unit) > rate else (low, middle)
    return high, hashes

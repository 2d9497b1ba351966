"""Bloom filters: sets of keys in a few bits per key, with rare false positives; and releases."""

import functools
import math
from functools import cached_property
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Key, Keys
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import bloom
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import SEED, KeyedSketch, answers_to, check_one_key
from sfumato.sketch.response_release import Answered, bits_answered, limits

__all__ = [
    "BITS",
    "HASHES",
    "LAYOUT",
    "LINE",
    "BloomFilter",
    "ReleasedBloomFilter",
    "best_size",
    "scratch",
]

BITS, HASHES, LAYOUT = integer(8, 2**32), integer(1, 64), one_of(("plain", "blocked"))
LINE = 512  # bits of a cache line, the blocked layout's unit
FEW = 4096  # bits up to which rates are summed over all numbers of flips


class ReleasedBloomFilter(Answered):
    """Private Bloom filter, every bit of which was flipped with a known probability.

    Made by `BloomFilter.release`. It has the bits, hashes, seed and layout of the filter;
    `flip_probability` follows from its statement.

    Notes
    -----
    **Guarantee.** Epsilon-differentially private with a public seed, as its `statement` says.
    Estimates are corrected for the flips, and their errors include the noise of the flips.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (3.4) (flip probability of BLIP).
       https://theses.hal.science/tel-01430156
    .. [2] Alaggan, Gambs, Kermarrec. "BLIP: Non-interactive Differentially-Private Similarity
       Computation on Bloom Filters". SSS 2012.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only: omit it
    >>> from sfumato.sketch import BloomFilter
    >>> items = BloomFilter(4096, 4).update(range(200))
    >>> released = items.release(epsilon=8, source=InsecureSeededSource(1))
    >>> bool(abs(released.estimate_size() - 200) <= released.error_bound(0.9999))
    True
    """

    bits: Annotated[int, BITS]
    hashes: Annotated[int, HASHES]
    seed: Annotated[int, SEED]
    layout: Annotated[str, LAYOUT]
    _words: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "BloomFilter"

    def __contains__(self, key: Key) -> bool:
        """Test whether one key is likely to be in the set, at equal prior odds."""
        check_one_key("ReleasedBloomFilter", key)
        return bool(self.contains(key))

    def scores(self, keys: Keys) -> Any:
        """Compute the log-likelihood ratio of membership for every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types; 7, "7" and 7.0 are the same key.

        Returns
        -------
        ndarray of shape (n,) or float
            Natural logarithm of the probability of the key's bits if it is in the set, over that if
            it is not. Add the logarithm of the prior odds to get that of the posterior odds. One
            number for one key.

        Notes
        -----
        The bits of keys outside the set are assumed to be 1 with the frequency of ones in the
        filter. A bit to which two hash functions map the key counts twice.
        """
        found = answers_to(keys, self.seed, np.uint8, self._hits)
        return float(self._scores[found]) if isinstance(found, int) else self._scores[found]

    def _hits(self, hashes: np.ndarray, out: np.ndarray) -> None:
        if self.layout == "blocked":
            bloom.hits_blocked(self._words, self.hashes, hashes, out)
        else:
            bloom.hits(self._words, self.bits, self.hashes, hashes, scratch(hashes), out)

    def contains(self, keys: Keys, threshold: float = 0.0) -> Any:
        """Test whether keys are likely to be in the set.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.
        threshold : float, default=0.0
            Minimum log-likelihood ratio (see `scores`), a finite number; 0 for equal prior odds.

        Returns
        -------
        ndarray of shape (n,) or bool
            Booleans: whether the score is at least the threshold. `rates` gives the probabilities
            of both kinds of error. One Boolean for one key.
        """
        return self.scores(keys) >= _finite(threshold)

    estimate = contains

    def rates(self, threshold: float = 0.0) -> tuple[float, float]:
        """Compute the error probabilities of `contains`.

        Parameters
        ----------
        threshold : float, default=0.0
            Threshold of `contains`, a finite number.

        Returns
        -------
        tuple
            False positive rate and false negative rate. The first is exact for the released bits.
            The second is over the flips; in filters of more than 4096 bits it is exact up to
            hashes / (8 bits).
        """
        needed = int(np.count_nonzero(self._scores < _finite(threshold)))
        ones, weights = np.unique(self._line_counts(), return_counts=True)
        false = weights @ _at_least(needed, self.hashes, ones / self._unit) / weights.sum()
        return float(false), 1 - self._found(needed)

    def estimate_size(self) -> float:
        """Estimate the number of distinct keys in the set.

        Returns
        -------
        float
            The number for which the expected fraction of ones is the observed one, corrected for
            the flips; at least 0.
        """
        return self._size_of(self._fraction())

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of `estimate_size`.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on the error in keys; may be infinite.

        Notes
        -----
        The fraction of ones is approximately normal, with the variance of flips and collisions.
        """
        low, high = limits(
            self._distribution, self._ones() / self.bits, confidence, type(self).__name__
        )
        here = self.estimate_size()
        return max(high - here, here - low)

    def inner(self, other: Self) -> float:
        """Estimate the number of bits that were set in both filters before the flips.

        Parameters
        ----------
        other : Self
            Release of a filter of the same parameters; its flip probability may differ.

        Returns
        -------
        float
            Unbiased estimate; may be negative.
        """
        self._check_same(other, "compare")
        both = int(np.bitwise_count(self._words & other._words).sum())
        p, q = self._flip, other._flip
        noisy = both - q * self._ones() - p * other._ones() + self.bits * p * q
        return noisy / ((1 - 2 * p) * (1 - 2 * q))

    def union_size(self, other: Self) -> float:
        """Estimate the number of distinct keys in the union of both sets.

        Parameters
        ----------
        other : Self
            Release of a filter of the same parameters.

        Returns
        -------
        float
            Estimated size of the union, at least 0.
        """
        both = self.inner(other) / self.bits
        return self._size_of(self._fraction() + other._fraction() - both)

    def intersection(self, other: Self) -> float:
        """Estimate the number of keys that are in both sets.

        Parameters
        ----------
        other : Self
            Release of a filter of the same parameters.

        Returns
        -------
        float
            Estimated size of the intersection, at least 0.
        """
        union = self.union_size(other)
        return max(self.estimate_size() + other.estimate_size() - union, 0.0)

    def similarity(self, other: Self) -> float:
        """Estimate the Jaccard similarity of both sets.

        Parameters
        ----------
        other : Self
            Release of a filter of the same parameters.

        Returns
        -------
        float
            Size of the intersection over that of the union, from 0 to 1; 1 if the union is empty.
        """
        union = self.union_size(other)
        return min(self.intersection(other) / union, 1.0) if union > 0 else 1.0

    def _fraction(self) -> float:
        """Unbiased estimate of the fraction of set bits; noise may put it outside 0 to 1."""
        return (self._ones() / self.bits - self._flip) / (1 - 2 * self._flip)

    def _size_of(self, fraction: float) -> float:
        """The number of keys that set this fraction of the bits on average."""
        fraction = min(max(fraction, 0.0), 1 - 0.5 / self.bits)
        return float(math.log1p(-fraction) / self._log_empty(1))

    def _log_empty(self, count: int) -> float:
        """The logarithm of the probability that a key sets none of `count` given bits of a line."""
        met = -math.expm1(self.hashes * math.log1p(-count / self._unit))
        return math.log1p(-met * self._unit / self.bits)

    def _distribution(self, n: float) -> tuple[float, float]:
        """Mean and standard deviation of the fraction of ones after n keys."""
        unit, bits, p = self._unit, self.bits, self._flip
        empty, same = math.exp(n * self._log_empty(1)), math.exp(n * self._log_empty(2))
        apart = 0.0  # two bits in different lines, which one key cannot both set
        if bits > unit:
            met = -math.expm1(self.hashes * math.log1p(-1 / unit))
            apart = (1 - unit / bits) * math.exp(n * math.log1p(-2 * met * unit / bits))
        collisions = max(empty / bits + (unit - 1) / bits * same + apart - empty**2, 0.0)
        variance = p * (1 - p) / bits + (1 - 2 * p) ** 2 * collisions
        return p + (1 - 2 * p) * (1 - empty), math.sqrt(variance)

    def _found(self, needed: int) -> float:
        """The probability that a key in the set finds at least `needed` ones after the flips."""
        p, unit = self._flip, self._unit
        if unit > FEW:
            return float(_at_least(needed, self.hashes, np.array([1 - p]))[0])
        flipped = np.arange(unit + 1)
        factorials = np.cumsum(np.log(np.maximum(flipped, 1)))
        choose = factorials[-1] - factorials - factorials[::-1]
        binomial = np.exp(choose + flipped * math.log(p) + (unit - flipped) * math.log1p(-p))
        found = float(binomial @ _at_least(needed, self.hashes, 1 - flipped / unit))
        return min(found / float(binomial.sum()), 1.0)

    @property
    def _unit(self) -> int:
        """The number of bits from which the bits of one key are drawn."""
        return LINE if self.layout == "blocked" else self.bits

    @cached_property
    def _scores(self) -> np.ndarray:
        """The score of a key by the number of ones among its bits."""
        p = self._flip
        frequency = min(max(self._ones() / self.bits, p), 1 - p)
        ones = np.arange(self.hashes + 1)
        return ones * math.log((1 - p) / frequency) + ones[::-1] * math.log(p / (1 - frequency))

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


def _at_least(needed: int, trials: int, p: np.ndarray) -> np.ndarray:
    """The probability of at least `needed` successes in `trials` trials, for each p."""
    out = np.zeros(p.size)
    for ones in range(max(needed, 0), trials + 1):
        out += math.comb(trials, ones) * p**ones * (1 - p) ** (trials - ones)
    return np.minimum(out, 1.0)


def _finite(threshold: Any) -> float:
    if isinstance(threshold, bool | str) or not math.isfinite(threshold):
        raise ValueError(
            f"ReleasedBloomFilter: threshold must be a finite number, not {threshold!r}."
        )
    return float(threshold)


def scratch(hashes: np.ndarray) -> np.ndarray:
    """Room for the positions of a block of keys."""
    return np.empty(min(hashes.size, bloom.CHUNK), np.uint32)


SMALL = 1024  # bits up to which the rate is computed exactly


class BloomFilter(KeyedSketch):
    """Approximate set of keys in a few bits per key, without false negatives.

    About 10 bits per key give a false positive rate of 1 %. Merges exactly, to the union.

    Parameters
    ----------
    bits : int
        Size in bits, from 8 to 2**32.
    hashes : int, default=7
        Hash functions, that is bits set per key, from 1 to 64.
    seed : int, default=0
        Seed of the hash functions. Filters merge only if their seeds are equal.
    layout : {"plain", "blocked"}, default="plain"
        "blocked" puts all bits of a key into one cache line: faster, with slightly more false
        positives. The bits must then be a multiple of 512.

    Notes
    -----
    **Guarantee.** A key that was added is always found. Another key is found with probability
    ``false_positive_rate(n)`` after n distinct keys, or ``error_bound()`` given the current bits.

    References
    ----------
    .. [1] Bloom. "Space/Time Trade-offs in Hash Coding with Allowable Errors". CACM 1970.
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.3.2.2 (approximate false positive rate (1 - exp(-k n /
       m))**k). https://theses.hal.science/tel-01430156
    .. [3] Putze, Sanders, Singler. "Cache-, Hash- and Space-Efficient Bloom Filters". WEA 2007
       (blocked layout).

    Examples
    --------
    >>> items = BloomFilter.from_capacity(1000, 0.01).update(["tea", "milk"])
    >>> items.contains(["tea", "rum"])
    array([ True, False])
    >>> "tea" in items, "rum" in items.add("rum")
    (True, True)
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
        """Build the smallest filter for a number of keys and a false positive rate.

        Parameters
        ----------
        n : int
            Number of distinct keys, from 1 to 2**32.
        false_positive_rate : float
            Largest expected false positive rate after n distinct keys, between 0 and 1.
        seed : int, default=0
            Seed of the hash functions.
        layout : {"plain", "blocked"}, default="plain"
            As in `BloomFilter`.

        Returns
        -------
        Self
            An empty filter.
        """
        n = integer(1, 2**32).check("BloomFilter", "n", n)
        rate = fraction.check("BloomFilter", "false_positive_rate", false_positive_rate)
        bits, hashes = best_size(n, rate, LAYOUT.check("BloomFilter", "layout", layout))
        return cls(bits, hashes, seed=seed, layout=layout)

    def update(self, keys: Column) -> Self:
        """Add keys to the set.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        for _, hashes in hashed.blocks:
            self._insert(hashes)
        self._note_keys(hashed)
        return self

    def add(self, key: Key) -> Self:
        self._insert(self._key_hash(key))
        self._note_key()
        return self

    def _insert(self, hashes: np.ndarray) -> None:
        if self.layout == "blocked":
            bloom.insert_blocked(self._words, self.hashes, hashes)
        else:
            bloom.insert(self._words, self.bits, self.hashes, hashes, scratch(hashes))

    def __contains__(self, key: Key) -> bool:
        """Test whether one key is in the set, as ``contains(key)`` does."""
        out = np.empty(1, np.bool_)
        self._find(self._key_hash(key), out)
        return bool(out[0])

    def contains(self, keys: Keys) -> Any:
        """Test whether keys are in the set.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or bool
            Booleans: True for every key that was added, and for a few others. One Boolean for one
            key, as ``key in filter`` gives.
        """
        return answers_to(keys, self.seed, np.bool_, self._find)

    def _find(self, hashes: np.ndarray, out: np.ndarray) -> None:
        found = out.view(np.uint8)
        if self.layout == "blocked":
            bloom.find_blocked(self._words, self.hashes, hashes, found)
        else:
            bloom.find(self._words, self.bits, self.hashes, hashes, scratch(hashes), found)

    estimate = contains

    def estimate_size(self) -> float:
        """Estimate the number of distinct keys in the set.

        Returns
        -------
        float
            The number for which the expected fraction of set bits is the observed one.
        """
        if self.layout == "blocked":
            lines = self._line_counts() / LINE
            empty = np.log1p(-np.minimum(lines, 1 - 0.5 / LINE)).sum()
            return float(empty / (self.hashes * math.log1p(-1 / LINE)))
        filled = min(self._ones() / self.bits, 1 - 0.5 / self.bits)
        return float(math.log1p(-filled) / (self.hashes * math.log1p(-1 / self.bits)))

    def false_positive_rate(self, n: int | None = None) -> float:
        """Compute the false positive rate of the filter as it is, or after a number of keys.

        Parameters
        ----------
        n : int or None, default=None
            Number of distinct keys, at least 0; None for the filter as it is.

        Returns
        -------
        float
            Probability that `contains` is True for a key that was not added: given the bits as in
            `error_bound`, or expected over seeds after n keys.
        """
        if n is None:
            return self.error_bound()
        n = integer(0).check("BloomFilter", "n", n)
        unit = 1 if self.layout == "plain" else LINE
        return _rate(n, self.bits // unit, self.hashes, unit)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Compute the false positive rate of the filter as it is.

        Parameters
        ----------
        confidence : float, default=0.99
            Not used, since the bits are known: the rate is exact. Between 0 and 1.

        Returns
        -------
        float
            Probability that `contains` is True for a key that was not added.
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
        """Release a differentially private copy by randomized response on every bit.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            Privacy loss of the release, above 0. A `sfumato.privacy.Privacy` here, or as the
            option `privacy`, replaces `epsilon`, `delta` and the options except `source`.
        delta : float, default=0.0
            Accepted as in other releases, from 0 to below 1; none of it is spent.
        **options : dict
            `ledger`, `dataset`, `unit`, `relation`, `contributions`, `release_id`, `privacy` and
            `source`, as in `CountMin.release`.

        Returns
        -------
        ReleasedBloomFilter
            The released copy, every bit of which is flipped with the same probability p.

        Notes
        -----
        **Guarantee.** Epsilon-differentially private for one unit, with a public seed. Adding or
        removing a key changes at most `hashes` bits, whatever the other keys are, and a flipped bit
        has a likelihood ratio of at most (1 - p) / p. So epsilon = hashes events ln((1 - p) / p),
        where a replaced key counts as two events. This is equation (3.4) (flip probability of BLIP)
        of the thesis [1]_, p = 1 / (1 + exp(epsilon / hashes)), rounded up.

        More hashes need more flips: up to an epsilon of about 6, `contains` has the fewest errors
        in filters with one hash.

        References
        ----------
        .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques".
           PhD thesis, Rennes 2016, equation (3.4) (flip probability of BLIP).
           https://theses.hal.science/tel-01430156

        Examples
        --------
        >>> items = BloomFilter(512, 2).update(["tea", "milk"])
        >>> round(float(items.release(epsilon=2).flip_probability), 4)
        0.2689
        """
        request = ReleaseRequest.of("BloomFilter", epsilon, delta, options)
        answer = bits_answered(request, min(self.hashes * request.events, self.bits))
        p = answer.flip_probability
        how = f"every bit flipped with probability {float(p):.6g}, {answer.cells} bits a unit"

        def flipped(source: Source) -> dict[str, np.ndarray]:
            return {"_words": self._words ^ noise.flips(p, self.bits, source=source)}

        calibrated = CalibratedRelease(
            ReleasedBloomFilter, self.parameters, answer.loss(), how, flipped
        )
        return calibrated.publish(request)

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
    """The minimum number of bits, and the hashes, for this false positive rate after n keys."""
    unit = 1 if layout == "plain" else LINE
    most = min(64, round(-math.log2(rate)) + 1)  # the optimum is -log2(rate), fewer when blocked
    units, hashes = min(_units(n, rate, k, unit) for k in range(max(1, most // 2), most + 1))
    return max(8, units * unit), hashes


def _rate(n: int, units: int, hashes: int, unit: int) -> float:
    """The false positive rate of `units` bits, or of `units` lines with a Poisson load each."""
    if n == 0:
        return 0.0
    if n * hashes > 32 * units * unit:
        return 1.0  # to twelve digits, and far from any useful rate
    if unit == 1:
        if units <= SMALL:
            return _exact_rate(n, units, hashes)
        return float(_near_rate(np.array([n]), units, hashes)[0])
    load = n / units
    keys = np.arange(int(load + 12 * math.sqrt(load + 1)) + 20)
    factorials = np.cumsum(np.log(np.maximum(keys, 1)))
    poisson = np.exp(keys * math.log(load) - load - factorials)
    return float((poisson * _near_rate(keys, unit, hashes)).sum())


def _near_rate(keys: np.ndarray, bits: int, hashes: int) -> np.ndarray:
    """E[(ones / bits)**k] to second order in the variance of the ones; to first it is too low."""
    throws = hashes * keys
    empty, two = np.exp(throws * math.log1p(-1 / bits)), np.exp(throws * math.log1p(-2 / bits))
    filled = 1 - empty
    variance = np.maximum(empty / bits + (1 - 1 / bits) * two - empty**2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        more = hashes * (hashes - 1) / 2 * variance / filled**2
    return np.where(keys > 0, filled**hashes * (1 + more), 0.0)


@functools.lru_cache(4096)
def _exact_rate(n: int, bits: int, hashes: int) -> float:
    """The probability that k more throws into `bits` bins, after k n throws, all hit full ones.

    A sum over the number d of distinct bins that they hit, and by inclusion and exclusion over the
    empty ones among those; in integers, since the terms cancel.
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
    """The minimum number of units for this rate with these hashes, and the hashes."""
    # No set of n keys with this rate fits into n log2(1 / rate) bits. For few bits the exact rate
    # takes long, and is not needed far below the result.
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

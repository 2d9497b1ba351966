"""HyperLogLog: the number of distinct keys, in a few kilobytes; and its private release."""

import math
import sys
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Self, Unpack

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Key
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import counters, register_estimate
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import SEED, KeyedSketch
from sfumato.sketch.response_release import Answered, bits_answered

__all__ = ["LARGEST_COUNT", "PRECISION", "HyperLogLog", "ReleasedHyperLogLog", "levels"]

PRECISION = integer(4, 18)
LARGEST_COUNT = integer(1, 2**62)
# Registers of level 1 per register of any other level: it alone determines small counts, without a
# lower level to help. Of 1, 4, 5, 7, 9 and 13, seven has the smallest worst relative error, or
# within 2 % of it, over counts from a quarter of the registers to the largest, at epsilon 0.5 to 4.
FIRST = 7
BEYOND = 16  # estimates are searched up to this multiple of the largest count
OCTAVE = 8  # counts tried in each doubling before the best one is refined


class ReleasedHyperLogLog(Answered):
    """Private number of distinct keys; made by `HyperLogLog.release`.

    It contains one randomly flipped bit per register: whether the register is at least its level.
    The level is public, a function of the register's index, `precision` and `largest`. It also
    stores the precision and seed of the sketch and `largest`, the largest expected count. Releases
    cannot be merged: flipped bits do not determine those of the union.

    Notes
    -----
    **Guarantee.** Epsilon-differentially private with a public seed, as its `statement` says.
    ``|estimate - true| <= error_bound(c)`` with probability approximately c.

    References
    ----------
    .. [1] Desfontaines, Lochbihler, Basin. "Cardinality Estimators do not Preserve Privacy". PoPETs
       2019 (why registers themselves are not released). https://arxiv.org/abs/1808.05879
    .. [2] Hehir, Ting, Cormode. "Sketch-Flip-Merge: Mergeable Sketches for Private Distinct
       Counting". ICML 2023 (flipped bits; their bitmaps store every level and take more memory).

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only: omit it
    >>> from sfumato.sketch import HyperLogLog
    >>> sketch = HyperLogLog(12).update(range(30_000))
    >>> released = sketch.release(epsilon=4, largest=100_000, source=InsecureSeededSource(1))
    >>> bool(abs(released.estimate() - 30_000) <= released.error_bound(0.9999))
    True
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    largest: Annotated[int, LARGEST_COUNT]
    _words: np.ndarray
    _of = "HyperLogLog"

    def estimate(self) -> float:
        """Estimate the number of distinct keys.

        Returns
        -------
        float
            Maximum likelihood estimate, at most 16 times `largest`.
        """
        return self._likeliest[0]

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of the estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on the error in keys; infinite if there is no upper limit.

        Notes
        -----
        The limits are the counts at which the log-likelihood ratio reaches the quantile of Wilks'
        theorem [1]_. Keys are assumed to fall into registers independently, which can only widen
        the bound.

        References
        ----------
        .. [1] Wilks. "The Large-Sample Distribution of the Likelihood Ratio for Testing Composite
           Hypotheses". Ann. Math. Statist. 1938.
        """
        low, high = self.interval(confidence)
        here = self.estimate()
        return max(here - low, high - here)

    def interval(self, confidence: float = 0.99) -> tuple[float, float]:
        """Compute a confidence interval of the number of distinct keys.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the interval contains the true number, between 0
            and 1.

        Returns
        -------
        tuple of float
            Lower and upper limit; the upper one may be infinite. `error_bound` says how they are
            found.
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        here, top = self._likeliest
        threshold = top - NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
        counts = np.sort(np.append(self._counts, here))
        inside = np.flatnonzero(self._log_likelihood(counts) >= threshold - 1e-9)
        low, high = counts[0], math.inf
        if inside[0] > 0:
            low = self._crossing(threshold, counts[inside[0]], counts[inside[0] - 1])
        if inside[-1] < counts.size - 1:
            high = self._crossing(threshold, counts[inside[-1]], counts[inside[-1] + 1])
        return float(low), float(high)

    def _crossing(self, threshold: float, inside: float, outside: float) -> float:
        """The count between two others at which the log-likelihood falls below the threshold."""
        for _ in range(50):
            middle = (inside + outside) / 2
            if self._log_likelihood(np.array([middle]))[0] >= threshold:
                inside = middle
            else:
                outside = middle
        return outside

    @cached_property
    def _likeliest(self) -> tuple[float, float]:
        """The maximum likelihood count, and its log-likelihood."""
        best = int(np.argmax(self._log_likelihood(self._counts)))
        low = self._counts[max(best - 1, 0)]
        high = self._counts[min(best + 1, self._counts.size - 1)]
        for _ in range(24):  # repeatedly the best quarter of nine points
            tried = np.linspace(low, high, 9)
            at = int(np.argmax(self._log_likelihood(tried)))
            low, high = tried[max(at - 1, 0)], tried[min(at + 1, 8)]
        return float(tried[at]), float(self._log_likelihood(tried[at : at + 1])[0])

    @cached_property
    def _counts(self) -> np.ndarray:
        octaves = math.log2(BEYOND * self.largest)
        return np.append(0.0, 2.0 ** np.arange(-1, octaves, 1 / OCTAVE))

    def _log_likelihood(self, counts: np.ndarray) -> np.ndarray:
        """For each count n, with P(a register reaches level v) = 1 - exp(-n 2**(1 - v) / m)."""
        ones, sizes = self._tallies
        rate = 2.0 ** -np.arange(sizes.size) / 2**self.precision
        reached = -np.expm1(-counts[:, np.newaxis] * rate)
        shown = self._flip + (1 - 2 * self._flip) * reached
        return np.asarray(np.log(shown) @ ones + np.log1p(-shown) @ (sizes - ones))

    @cached_property
    def _tallies(self) -> tuple[np.ndarray, np.ndarray]:
        """The number of set bits of each level, and the number of bits of each level."""
        at = levels(self.precision, self.largest) - 1
        bits = np.unpackbits(self._words.view(np.uint8), count=at.size, bitorder="little")
        return np.bincount(at, bits), np.bincount(at).astype(np.float64)

    def _layout(self) -> dict[str, Cells]:
        return {"_words": Cells(np.uint64, (-(-(2**self.precision) // 64),), "")}

    def _check_state(self) -> None:
        if self.precision < 6 and self._words[0] >> np.uint64(2**self.precision):
            raise ValueError("a bit is set beyond the last.")


def levels(precision: int, largest: int) -> np.ndarray:
    """The level of each register's bit: from 1 up to one that `largest` keys seldom reach.

    Level 1 gets FIRST times as many registers as each further level, in order. The level depends on
    the register's number and public parameters only.

    >>> levels(4, 64).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3]
    """
    size = 2**precision
    highest = min(max((largest - 1).bit_length() - precision, 0) + 1, 64 - precision + 1)
    parts = highest - 1 + FIRST
    return np.asarray(np.maximum(1, np.arange(size) * parts // size - FIRST + 2))


STD_ERROR = 1.04  # relative standard error of true / estimate, times sqrt(number of registers)


class HyperLogLog(KeyedSketch):
    """Number of distinct keys, in 2**precision bytes.

    The relative standard error is about 1.04 / sqrt(2**precision), that is 0.8 % at the default
    precision, in 16 KiB. Merges exactly, to the union.

    Parameters
    ----------
    precision : int, default=14
        Base-2 logarithm of the number of one-byte registers, from 4 to 18.
    seed : int, default=0
        Seed of the hash. Sketches merge only if their seeds are equal.

    Notes
    -----
    **Guarantee.** ``|estimate - true| <= error_bound(c) * true + 1`` with probability approximately
    c: the inverse of the estimate is nearly normal. The 1 is for a few keys, two of which may share
    a register.

    References
    ----------
    .. [1] Flajolet, Fusy, Gandouet, Meunier. "HyperLogLog: the analysis of a near-optimal
       cardinality estimation algorithm". AofA 2007.
    .. [2] Ertl. "New cardinality estimation algorithms for HyperLogLog sketches". 2017, Algorithm 6
       (estimator without thresholds and tables). https://arxiv.org/abs/1702.01284

    Examples
    --------
    >>> sketch = HyperLogLog(precision=12).update(range(1000)).update(range(500))
    >>> bool(abs(sketch.estimate() - 1000) < 1000 * sketch.error_bound(0.999))
    True
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    keys: str
    _registers: np.ndarray
    _tally = np.zeros(0, np.int64)  # registers of each value, from the first estimate on
    version = 2  # a key has one hash, whatever its type
    _idempotent = True
    _scalars = {"keys": ""}

    def __init__(self, precision: int = 14, *, seed: int = 0) -> None:
        self._set_parameters(precision=precision, seed=seed)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, *, seed: int = 0) -> Self:
        """Build the smallest sketch with a given relative error.

        Parameters
        ----------
        error : float
            Bound on the relative error, between 0 and 1; ValueError if precision 18 does not reach
            it.
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        seed : int, default=0
            Seed of the hash.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``.
        """
        error = fraction.check("HyperLogLog", "error", error)
        for precision in range(4, 19):
            sketch = cls(precision, seed=seed)
            if sketch.error_bound(confidence) <= error:
                return sketch
        raise ValueError(
            f"HyperLogLog: error must be {sketch.error_bound(confidence):.2g} or more, not {error}."
        )

    def update(self, keys: Column) -> Self:
        """Add keys.

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
            self._observe(hashes)
        self._note_keys(hashed)
        return self

    def add(self, key: Key) -> Self:
        self._observe(self._key_hash(key))
        self._note_key()
        return self

    def _observe(self, hashes: np.ndarray) -> None:
        counters.observe(self._registers, self.precision, hashes, self._tally)

    def estimate(self) -> float:
        """Estimate the number of distinct keys.

        Returns
        -------
        float
            Estimated number; 0 for an empty sketch.
        """
        tally = self._tally
        if not tally.size:
            tally = np.bincount(self._registers, minlength=64 - self.precision + 2)
            if "numba" not in sys.modules:  # loading it takes longer
                return float(register_estimate.distinct(tally.tolist(), self._registers.size))
            vars(self)["_tally"] = tally
        return float(counters.distinct(tally, self._registers.size))

    def interval(self, confidence: float = 0.99) -> tuple[float, float]:
        """Compute a confidence interval of the number of distinct keys.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the interval contains the true number, between 0
            and 1.

        Returns
        -------
        tuple of float
            Lower and upper limit; both are 0 for an empty sketch.

        Notes
        -----
        The number divided by the estimate is nearly normal with mean 1; each side is one key wider
        for few keys, two of which may share a register.

        Examples
        --------
        >>> low, high = HyperLogLog().update(range(1000)).interval(0.999)
        >>> low <= 1000 <= high
        True
        """
        error, here = self._half_width(confidence), self.estimate()
        if here == 0:
            return 0.0, 0.0
        return max(here * (1 - error) - 1, 0.0), here * (1 + error) + 1

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the relative error of the estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on ``(|estimate - true| - 1) / true``; it depends on the precision only.
        """
        error = self._half_width(confidence)
        return error / (1 - error) if error < 1 else math.inf

    def _half_width(self, confidence: float) -> float:
        """The bound on |true / estimate - 1|."""
        confidence = fraction.check("HyperLogLog", "confidence", confidence)
        return NormalDist().inv_cdf((1 + confidence) / 2) * STD_ERROR / 2 ** (self.precision / 2)

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        largest: int,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedHyperLogLog:
        """Release a differentially private copy by randomized response on one bit per register.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            Privacy loss of the release, above 0. A `sfumato.privacy.Privacy` here, or as the
            option `privacy`, replaces `epsilon`, `delta` and the options except `source`.
        delta : float, default=0.0
            Accepted as in other releases, from 0 to below 1; none of it is spent.
        largest : int
            Largest count expected, from public knowledge, from 1 to 2**62. Each doubling adds a
            level, and so a little noise.
        **options : dict
            `ledger`, `dataset`, `unit`, `relation`, `contributions`, `release_id`, `privacy` and
            `source`, as in `CountMin.release`.

        Returns
        -------
        ReleasedHyperLogLog
            The released copy. The bit of a register says whether it reached a public level.

        Notes
        -----
        **Guarantee.** Epsilon-differentially private for one unit, with a public seed. Adding or
        removing a key changes at most one register, hence one bit, which is flipped with
        probability p = 1 / (1 + exp(epsilon)), rounded up. Replacing a key changes two. The
        registers themselves would not be private: a high one is near proof of its key.

        Examples
        --------
        >>> HyperLogLog(10).update(range(99)).release(epsilon=1, largest=1000).statement.delta
        0.0
        """
        request = ReleaseRequest.of("HyperLogLog", epsilon, delta, options)
        largest = LARGEST_COUNT.check("HyperLogLog", "largest", largest)
        size = 2**self.precision
        answer = bits_answered(request, min(request.events, size))
        p = answer.flip_probability
        how = f"one bit a register, flipped with probability {float(p):.6g}"

        def flipped(source: Source) -> dict[str, np.ndarray]:
            bits = np.zeros(-(-size // 64) * 64, np.uint8)
            bits[:size] = self._registers >= levels(self.precision, largest)
            words = np.packbits(bits, bitorder="little").view(np.uint64)
            return {"_words": words ^ noise.flips(p, size, source=source)}

        parameters = {**self.parameters, "largest": largest}
        calibrated = CalibratedRelease(ReleasedHyperLogLog, parameters, answer.loss(), how, flipped)
        return calibrated.publish(request)

    def _join(self, other: Self) -> None:
        vars(self).pop("_tally", None)
        super()._join(other)

    def _layout(self) -> dict[str, Cells]:
        return {"_registers": Cells(np.uint8, (2**self.precision,), "max")}

    def _check_state(self) -> None:
        super()._check_state()
        if self._registers.max() > 64 - self.precision + 1:
            raise ValueError("a register is out of range.")

"""Released MinHash: similarities and sizes of sets from randomized responses on bins."""

import math
from functools import cached_property
from typing import Annotated, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import SEED
from sfumato.sketch.response_release import (
    Answered,
    answers_of,
    false_symbol_probability,
    limits,
    symbols_answered,
)

__all__ = ["BINS", "CODE_BITS", "ReleasedMinHash", "calibrated"]

BINS = integer(1, 2**16)
CODE_BITS = integer(1, 7)  # of a minimum; with "empty" a code fits a byte


class ReleasedMinHash(Answered):
    """Private MinHash sketch of a set; made by `MinHash.release`.

    It contains a few bits of each bin's minimum, or that the bin is empty, by randomized response.
    It has the permutations (bins) and seed of the sketch, and the number of bits of a minimum, from
    1 to 7.

    Notes
    -----
    **Guarantee.** Epsilon-differentially private with a public seed, as its `statement` says.
    Similarities to releases of the same parameters, at any epsilon, are corrected for the noise:
    consistent, and with an error of at most ``error_bound(c, other)`` with probability at least c.

    References
    ----------
    .. [1] Li, Owen, Zhang. "One Permutation Hashing". NIPS 2012. https://arxiv.org/abs/1208.1259
    .. [2] Li, König. "Theory and Applications of b-Bit Minwise Hashing". CACM 2011.
    .. [3] Li, Li. "Differentially Private One Permutation Hashing and Bin-wise Consistent Weighted
       Sampling". 2023 (here before densification). https://arxiv.org/abs/2306.07674

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only: omit it
    >>> from sfumato.sketch import MinHash
    >>> tea, milk = (MinHash(4096, kind="one-permutation").update(range(n)) for n in (9000, 6000))
    >>> tea = tea.release(epsilon=4, source=InsecureSeededSource(1))
    >>> milk = milk.release(epsilon=4, source=InsecureSeededSource(2))
    >>> bool(abs(tea.similarity(milk) - 2 / 3) <= tea.error_bound(0.9999, milk))
    True
    """

    permutations: Annotated[int, BINS]
    seed: Annotated[int, SEED]
    bits: Annotated[int, CODE_BITS]
    _codes: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _of = "MinHash"

    def similarity(self, other: Self) -> float:
        """Estimate the Jaccard similarity to another set.

        Parameters
        ----------
        other : Self
            Release of the same parameters; its epsilon may differ.

        Returns
        -------
        float
            Estimated similarity, clipped to 0 to 1.

        Notes
        -----
        The ratio of two unbiased estimates: the number of bins that are equal, and of those that
        are full in either set. Different minima agree with probability 2**-bits.
        """
        equal, either = self._bins(other)
        return float(min(max(equal.sum() / max(either.sum(), 1.0), 0.0), 1.0))

    def error_bound(self, confidence: float = 0.99, other: Self | None = None) -> float:
        """Bound the error of a similarity to another release.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        other : Self or None, default=None
            The other release, whose responses then give the variance (empirical Bernstein bound
            [1]_). None bounds the error for any release of the same noise and size, by Bernstein's
            inequality with the largest variance that a bin can have.

        Returns
        -------
        float
            Bound on the absolute error, at most 1. Bins are assumed to be independent.

        References
        ----------
        .. [1] Maurer, Pontil. "Empirical Bernstein Bounds and Sample Variance Penalization". COLT
           2009, Theorem 4 (empirical Bernstein bound). https://arxiv.org/abs/0907.3740
        """
        miss = 1 - fraction.check(type(self).__name__, "confidence", confidence)
        if other is None:
            deviation = _bernstein(2**self.bits, self._false, self.permutations, miss)
            return min(deviation / max(self._full() * self.permutations, 1.0), 1.0)
        equal, either = self._bins(other)
        extent = _extent(2**self.bits, self._false, other._false)
        full, bound = max(float(either.sum()), 1.0), 1.0
        here = float(equal.sum()) / full
        # The true similarity is within the bound of the estimate, so only that range matters.
        for _ in range(4):
            ends = (min(max(here + side * bound, 0.0), 1.0) for side in (-1, 1))
            bound = max(_empirical(equal - end * either, extent, miss) for end in ends) / full
        return min(bound, 1.0)

    def estimate_size(self) -> float:
        """Estimate the number of distinct keys in the set.

        Returns
        -------
        float
            The number for which the expected fraction of full bins is the estimated one; at least
            0.
        """
        full = min(max(self._full(), 0.0), 1 - 0.5 / self.permutations)
        return math.log1p(-full) / self._log_missed

    def size_bounds(self, confidence: float = 0.99) -> tuple[float, float]:
        """Compute confidence limits of the number of distinct keys.

        Parameters
        ----------
        confidence : float, default=0.99
            Approximate probability with which the interval contains the true number, between 0 and
            1.

        Returns
        -------
        tuple
            Lower and upper limit; the upper may be infinite.
        """
        return limits(self._distribution, self._reported(), confidence, type(self).__name__)

    def _distribution(self, n: float) -> tuple[float, float]:
        """Mean of the fraction of bins reported full, and a bound on its standard deviation."""
        full = -math.expm1(n * self._log_missed)
        mean = 2**self.bits * self._false + self._signal * full
        return mean, math.sqrt(mean * (1 - mean) / self.permutations)

    @property
    def _log_missed(self) -> float:
        """Log-probability that a key is not in a given bin; very low if there is only one."""
        return math.log1p(-1 / self.permutations) if self.permutations > 1 else -64.0

    def _bins(self, other: Self) -> tuple[np.ndarray, np.ndarray]:
        """Unbiased indicators, per bin, of being equal and of being full in either set."""
        self._check_same(other, "compare")
        equal, either = _tables(2**self.bits, self._false, other._false)
        return equal[self._codes, other._codes], either[self._codes, other._codes]

    def _reported(self) -> float:
        """The fraction of bins that are reported to be full."""
        return float(np.count_nonzero(self._codes < 2**self.bits) / self.permutations)

    def _full(self) -> float:
        """Unbiased estimate of the fraction of full bins."""
        return float((self._reported() - 2**self.bits * self._false) / self._signal)

    @cached_property
    def _false(self) -> float:
        """Probability of each false symbol."""
        return float(false_symbol_probability(answers_of(self.statement), 2**self.bits + 1))

    @property
    def _signal(self) -> float:
        """Probability of the true symbol minus that of each false one."""
        return float(1 - (2**self.bits + 1) * self._false)

    def _layout(self) -> dict[str, Cells]:
        return {"_codes": Cells(np.uint8, (self.permutations,), "")}

    def _check_state(self) -> None:
        if self._codes.max() > 2**self.bits:
            raise ValueError("a code is out of range.")


def calibrated(
    codes: np.ndarray, bits: int, seed: int, request: ReleaseRequest, cells: int
) -> CalibratedRelease[ReleasedMinHash]:
    """The release of one code per bin, for a unit that changes at most `cells` bins.

    The likelihood ratio of one response is at most exp(epsilon / cells).
    """
    symbols = 2**bits + 1
    answer = symbols_answered(request, symbols, cells)

    def answered(source: Source) -> dict[str, np.ndarray]:
        return {"_codes": answer.run(codes, source=source).astype(np.uint8)}

    return CalibratedRelease(
        ReleasedMinHash,
        dict(permutations=codes.size, seed=seed, bits=bits),
        answer.loss(),
        f"{bits} bits of each bin's minimum or 'empty', by {symbols}-ary randomised response",
        answered,
    )


def _tables(codes: int, c: float, d: float) -> tuple[np.ndarray, np.ndarray]:
    """Unbiased indicators of "equal" and "full in either" for each pair of responses.

    A response counts (1[it is s] - c) / (1 - (codes + 1) c) for the symbol s, a pair the product.
    """
    left, right = ((np.eye(codes + 1) - w) / (1 - (codes + 1) * w) for w in (c, d))
    here, there = left[:, :codes].sum(axis=1), right[:, :codes].sum(axis=1)
    both = np.outer(here, there)
    equal = (left[:, :codes] @ right[:, :codes].T - both / codes) / (1 - 1 / codes)
    return equal, here[:, np.newaxis] + there - both


def _extent(codes: int, c: float, d: float) -> float:
    """The range of the error of one bin.

    The error is equal - J either, linear in the similarity J, so its extremes are at J = 0 or 1.
    """
    equal, either = _tables(codes, c, d)
    return float(max(np.ptp(equal), np.ptp(equal - either)))


def _empirical(errors: np.ndarray, extent: float, miss: float) -> float:
    """Bound on the sum of independent errors, from their sample variance."""
    bins, log = errors.size, math.log(4 / miss)
    if bins == 1:
        return math.inf
    deviation = math.sqrt(2 * bins * float(errors.var(ddof=1)) * log)
    return deviation + 7 * extent * log * bins / (3 * (bins - 1))


def _bernstein(codes: int, c: float, bins: int, miss: float) -> float:
    """Bound on the sum of errors, from the largest variance in any true state of a bin."""
    equal, either = _tables(codes, c, c)
    channel = np.full((codes + 1, codes + 1), c)  # P(response (column) | symbol (row))
    np.fill_diagonal(channel, 1 - codes * c)
    here, there = np.array([(0, 0), (0, 1), (0, codes), (codes, codes)]).T
    largest = variance = 0.0
    for error in (equal, equal - either):
        squares = (channel[here] @ error**2 * channel[there]).sum(axis=1)
        variance = max(variance, float(squares.max()))
        largest = max(largest, float(np.abs(error).max()))
    log = math.log(2 / miss)
    return log * largest / 3 + math.sqrt((log * largest / 3) ** 2 + 2 * log * bins * variance)

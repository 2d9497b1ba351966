"""Released MinHash: how alike two sets are, and how large, from answers about one bin a key."""

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
    chance_of,
    limits,
    symbols_answered,
)

__all__ = ["BINS", "CODE_BITS", "ReleasedMinHash", "plan"]

BINS = integer(1, 2**16)
CODE_BITS = integer(1, 7)  # of a minimum; with "empty" a code fits a byte


class ReleasedMinHash(Answered):
    """A few bits of each bin's minimum, or that it is empty, answered at random, for good.

    Made by `MinHash.release`.

    permutations (bins) and seed of the sketch; bits released of a minimum, 1 to 7.

    Notes
    -----
    **Guarantee.** Epsilon-differential privacy with a public seed, as its `statement` says.
    Similarities to releases of the same parameters, at any epsilon, are debiased: consistent, and
    within error_bound(c, other) with probability c.

    References
    ----------
    .. [1] Li, Owen and Zhang 2012; Li and Koenig 2011; private: Li and Li 2023, before
       densification.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
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
        """The estimated Jaccard similarity of both sets, cut to 0..1.

        Answers are undone bin by bin, so that the numbers of bins that are full here or there, and
        of those that are alike, are unbiased; different minima agree with chance 2**-bits.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The estimated Jaccard similarity of both sets, cut to 0..1.
        """
        alike, either = self._bins(other)
        return float(min(max(alike.sum() / max(either.sum(), 1.0), 0.0), 1.0))

    def error_bound(self, confidence: float = 0.99, other: Self | None = None) -> float:
        """How far the similarity to another release may be off, with this probability.

        confidence;

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        other : Self or None, default=None
            Whose answers then tell the variance (Maurer and Pontil 2009, theorem 4); without it,
            for any one like this in noise and size, the largest variance that a bin can have is
            taken (Bernstein's inequality). Bins are taken as independent.

        Returns
        -------
        float
            How far the similarity to another release may be off, with this probability.
        """
        miss = 1 - fraction.check(type(self).__name__, "confidence", confidence)
        if other is None:
            far = _bernstein(2**self.bits, self._wrong, self.permutations, miss)
            return min(far / max(self._full() * self.permutations, 1.0), 1.0)
        alike, either = self._bins(other)
        extent = _extent(2**self.bits, self._wrong, other._wrong)
        full, off = max(float(either.sum()), 1.0), 1.0
        here = float(alike.sum()) / full
        # What holds for the true similarity need only be asked near the estimate.
        for _ in range(4):
            ends = (min(max(here + side * off, 0.0), 1.0) for side in (-1, 1))
            off = max(_measured(alike - end * either, extent, miss) for end in ends) / full
        return min(off, 1.0)

    def estimate_size(self) -> float:
        """The estimated number of different keys in the set, from the share of full bins.

        Returns
        -------
        float
            The estimated number of different keys in the set, from the share of full bins.
        """
        share = min(max(self._full(), 0.0), 1 - 0.5 / self.permutations)
        return math.log1p(-share) / self._log_missed

    def size_bounds(self, confidence: float = 0.99) -> tuple[float, float]:
        """Numbers of keys between which the true one lies, with about this probability.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return limits(self._distribution, self._told(), confidence, type(self).__name__)

    def _distribution(self, n: float) -> tuple[float, float]:
        """Mean and deviation, at most, of the share of bins that are told to be full."""
        full = -math.expm1(n * self._log_missed)
        mean = 2**self.bits * self._wrong + self._kept * full
        return mean, math.sqrt(mean * (1 - mean) / self.permutations)

    @property
    def _log_missed(self) -> float:
        """The logarithm of the chance that a key misses a given bin; very low if it is the only."""
        return math.log1p(-1 / self.permutations) if self.permutations > 1 else -64.0

    def _bins(self, other: Self) -> tuple[np.ndarray, np.ndarray]:
        """What each bin adds to the number that are alike, and to that full here or there."""
        self._check_same(other, "compare")
        alike, either = _tables(2**self.bits, self._wrong, other._wrong)
        return alike[self._codes, other._codes], either[self._codes, other._codes]

    def _told(self) -> float:
        """The share of bins that are told to be full."""
        return float(np.count_nonzero(self._codes < 2**self.bits) / self.permutations)

    def _full(self) -> float:
        """The share of bins that are full, debiased."""
        return float((self._told() - 2**self.bits * self._wrong) / self._kept)

    @cached_property
    def _wrong(self) -> float:
        """The chance of each wrong symbol."""
        return float(chance_of(answers_of(self.statement), 2**self.bits + 1))

    @property
    def _kept(self) -> float:
        """How much likelier the right symbol is than each wrong one."""
        return float(1 - (2**self.bits + 1) * self._wrong)

    def _layout(self) -> dict[str, Cells]:
        return {"_codes": Cells(np.uint8, (self.permutations,), "")}

    def _check_state(self) -> None:
        if self._codes.max() > 2**self.bits:
            raise ValueError("a code is out of range.")


def plan(
    codes: np.ndarray, bits: int, seed: int, request: ReleaseRequest, cells: int
) -> CalibratedRelease[ReleasedMinHash]:
    """The release of one code a bin, when a unit changes so many of them (cells), at most.

    An answer tells the symbol of a bin by a factor of exp(epsilon / cells) at most.
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
    """What a pair of answers counts for "alike" and for "full here or there", right on average.

    An answer counts (1[it is s] - c) / (1 - (codes + 1) c) for the symbol s, a pair the product.
    """
    left, right = ((np.eye(codes + 1) - w) / (1 - (codes + 1) * w) for w in (c, d))
    here, there = left[:, :codes].sum(axis=1), right[:, :codes].sum(axis=1)
    both = np.outer(here, there)
    alike = (left[:, :codes] @ right[:, :codes].T - both / codes) / (1 - 1 / codes)
    return alike, here[:, np.newaxis] + there - both


def _extent(codes: int, c: float, d: float) -> float:
    """How far apart two errors of a bin can be.

    The error is alike - J either, linear in the similarity J, so its extremes are at J = 0 or 1.
    """
    alike, either = _tables(codes, c, d)
    return float(max(np.ptp(alike), np.ptp(alike - either)))


def _measured(errors: np.ndarray, extent: float, miss: float) -> float:
    """How far the sum of independent errors may be from 0, from their own variance."""
    bins, log = errors.size, math.log(4 / miss)
    if bins == 1:
        return math.inf
    spread = math.sqrt(2 * bins * float(errors.var(ddof=1)) * log)
    return spread + 7 * extent * log * bins / (3 * (bins - 1))


def _bernstein(codes: int, c: float, bins: int, miss: float) -> float:
    """The same, from the largest variance in any true state of a bin in both sketches."""
    alike, either = _tables(codes, c, c)
    chances = np.full((codes + 1, codes + 1), c)  # of an answer (across) to a symbol (down)
    np.fill_diagonal(chances, 1 - codes * c)
    here, there = np.array([(0, 0), (0, 1), (0, codes), (codes, codes)]).T
    largest = variance = 0.0
    for error in (alike, alike - either):
        squares = (chances[here] @ error**2 * chances[there]).sum(axis=1)
        variance = max(variance, float(squares.max()))
        largest = max(largest, float(np.abs(error).max()))
    log = math.log(2 / miss)
    return log * largest / 3 + math.sqrt((log * largest / 3) ** 2 + 2 * log * bins * variance)

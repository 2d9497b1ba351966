"""Exact noise shares: independent integers that sum to discrete Laplace noise, by tables."""

from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.kernels import noise as kernels
from sfumato.kernels import noise as shares
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.noise.exact.distributions import exp_bounds
from sfumato.privacy.noise.exact.share_distributions import (
    LEADING,
    NumberOfTerms,
    SizeStrips,
    strip,
)
from sfumato.privacy.noise.tables import (
    CHUNK,
    LaplaceSampler,
    ReferenceSampler,
    SamplingTable,
    gaussian_sampler,
    laplace_sampler,
    parts,
)
from sfumato.privacy.random_source import Source, SystemSource, stated
from sfumato.privacy.statement import INSECURE

__all__ = ["ShareSampler", "ShareSource", "share_sampler"]


class ShareSampler:
    """Sampler of noise shares: `count` independent ones sum to discrete Laplace noise.

    The number of terms and the strip of each term come from tables. A number in a strip is accepted
    with the ratio of its weight to that of the strip's first; rejected ones are drawn afresh.
    """

    def __init__(self, scale: Fraction, count: int) -> None:
        self._rate = 1 / scale
        self._terms = SamplingTable(NumberOfTerms(self._rate, count))
        self._strips = SamplingTable(SizeStrips(self._rate))
        self._slopes = self._doubts()

    def add(self, cells: np.ndarray, source: Source) -> None:
        """Add a share to every number of a one-dimensional int64 array."""
        bits = reference.Bits(source)
        words, undecided = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.int64)
        for part in parts(cells):
            terms = np.zeros(part.size, np.int64)
            source.fill(words[: part.size])
            drawn = words[: part.size], *self._terms.looked_up, 0
            for i in undecided[: kernels.add_digits(*drawn, undecided, terms)]:
                terms[i] = self._terms.resolve(words[i], bits)
            shares.add_runs(terms, self._sizes(int(terms.sum()), source, bits), part)

    def _sizes(self, count: int, source: Source, bits: reference.Bits) -> np.ndarray:
        """Sample `count` terms: numbers of either sign."""
        words, sizes = np.empty((count, 2), np.uint64), np.empty(count, np.int64)
        undecided = np.empty(count, np.int64)
        source.fill(words)
        strips = *self._strips.looked_up, LEADING, self._slopes
        rejected = []
        for i in undecided[: shares.draw_sizes(words.reshape(-1), *strips, undecided, sizes)]:
            size = self._size(int(words[i, 0]), int(words[i, 1]), bits)
            sizes[i] = -size if words[i, 0] & np.uint64(1) else size
            if not size:
                rejected.append(int(i))
        if rejected:
            sizes[rejected] = self._sizes(len(rejected), source, bits)
        return sizes

    def _size(self, word: int, second: int, bits: reference.Bits) -> int:
        """Return the number for two words, or 0 if it is rejected."""
        first, exponent = strip(self._strips.resolve(word, bits))
        inside = second & ((1 << exponent) - 1)
        acceptance = Fraction(first, first + inside)
        if _below(second >> exponent, 64 - exponent, acceptance, inside * self._rate, bits):
            return first + inside
        return 0

    def _doubts(self) -> np.ndarray:
        """Bound the doubtful part of 2**64 for each step into a strip, rounded up.

        A step r past the first number f is accepted with probability exp(-rate r) f / (f + r),
        which is at least 1 - r (rate + 1 / f).
        """
        rate = (self._rate * 2**64).__ceil__()
        strips = (strip(i) for i in range(self._strips.floors.size))
        return np.array(
            [exponent and rate - (-(2**64) // first) for first, exponent in strips], np.uint64
        )


def _below(prefix: int, known: int, ratio: Fraction, gamma: Fraction, bits: reference.Bits) -> bool:
    """Return whether a uniform number with these leading bits is below ratio * exp(-gamma)."""
    while True:
        low, high = exp_bounds(gamma, known)
        if prefix + 1 <= low * ratio:
            return True
        if prefix >= high * ratio:
            return False
        prefix, known = prefix << 64 | bits.take(64), known + 64


def share_sampler(
    scale: Fraction, count: int, size: int
) -> ShareSampler | LaplaceSampler | ReferenceSampler:
    """Return the sampler of `size` of `count` noise shares; a single one is all the noise."""
    return laplace_sampler(scale, size) if count == 1 else _share_tables(scale, count)


_share_tables = lru_cache(16)(ShareSampler)


class ShareSource:
    """Source of random bits under which mechanisms add one noise share instead of the full noise.

    For distributed noise: each of `of` parties adds one share of the Laplace or Gaussian noise, and
    only the sum of all parties' results is private. Every other kind of noise is added in full.

    Parameters
    ----------
    of : int
        Number of shares that make up the noise, from 1 to 2**20.
    source : Source or None, default=None
        Source of the bits, for tests only; None draws them from the operating system.

    Attributes
    ----------
    added : int
        Number of cells that got a share so far.
    insecure : bool
        Whether the bits are seeded, for tests.

    Notes
    -----
    **Guarantee.** Laplace shares sum exactly to discrete Laplace noise. Gaussian shares are
    discrete Gaussian noise of variance / of; `gaussian_gap` bounds how far their sum is from the
    full noise. A single party's result is not private by itself.

    Examples
    --------
    >>> from sfumato.privacy.noise import add_laplace
    >>> cells = np.zeros(3, np.int64)
    >>> share = ShareSource(of=10)
    >>> add_laplace(cells, 5, source=share)
    >>> share.added
    3
    """

    def __init__(self, of: int, source: Source | None = None) -> None:
        self.of: int
        self.of, self.added = of, 0
        self.insecure: bool = stated(source) == INSECURE
        self._source = source or SystemSource()

    def __repr__(self) -> str:
        return f"ShareSource(of={self.of}, source={self._source!r})"

    def fill(self, out: np.ndarray) -> None:
        """Overwrite an array with random bytes.

        Parameters
        ----------
        out : ndarray
            Contiguous array.
        """
        self._source.fill(out)

    def add_laplace(self, cells: np.ndarray, scale: Fraction) -> None:
        """Add one share of discrete Laplace noise to every cell; `added` counts them.

        Parameters
        ----------
        cells : ndarray
            One-dimensional int64 array, changed in place.
        scale : Fraction
            Scale of the full noise.
        """
        share_sampler(scale, self.of, cells.size).add(cells, self._source)
        self.added += cells.size

    def add_gaussian(self, cells: np.ndarray, variance: Fraction) -> None:
        """Add discrete Gaussian noise of variance / of to every cell; `added` counts them.

        Parameters
        ----------
        cells : ndarray
            One-dimensional int64 array, changed in place.
        variance : Fraction
            Variance of the full noise.
        """
        gaussian_sampler(variance / self.of, cells.size).add(cells, self._source)
        self.added += cells.size

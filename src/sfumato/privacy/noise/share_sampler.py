"""Exact shares of discrete Laplace noise: tables answer nearly all draws, as in `_tables`."""

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
    SamplingTable,
    gaussian_sampler,
    laplace_sampler,
    parts,
)
from sfumato.privacy.random_source import Source, SystemSource, stated
from sfumato.privacy.statement import INSECURE

__all__ = ["ShareSampler", "ShareSource", "share_sampler"]


class ShareSampler:
    """Integers of which so many, independent, sum to discrete Laplace noise of this scale.

    The number of terms and the strip of each term come from tables. A number in a strip is kept
    with the ratio of its weight to that of the strip's first; those not kept are drawn afresh.
    """

    def __init__(self, scale: Fraction, count: int) -> None:
        self._rate = 1 / scale
        self._terms = SamplingTable(NumberOfTerms(self._rate, count))
        self._strips = SamplingTable(SizeStrips(self._rate))
        self._slopes = self._doubts()

    def add(self, cells: np.ndarray, source: Source) -> None:
        """Add a share to every number of a one-dimensional int64 array."""
        bits = reference.Bits(source)
        words, left_open = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.int64)
        for part in parts(cells):
            terms = np.zeros(part.size, np.int64)
            source.fill(words[: part.size])
            drawn = words[: part.size], *self._terms.looked_up, 0
            for i in left_open[: kernels.add_digits(*drawn, left_open, terms)]:
                terms[i] = self._terms.resolve(words[i], bits)
            shares.add_runs(terms, self._sizes(int(terms.sum()), source, bits), part)

    def _sizes(self, count: int, source: Source, bits: reference.Bits) -> np.ndarray:
        """So many terms: numbers of either sign."""
        words, sizes = np.empty((count, 2), np.uint64), np.empty(count, np.int64)
        left_open = np.empty(count, np.int64)
        source.fill(words)
        strips = *self._strips.looked_up, LEADING, self._slopes
        not_kept = []
        for i in left_open[: shares.draw_sizes(words.reshape(-1), *strips, left_open, sizes)]:
            size = self._size(int(words[i, 0]), int(words[i, 1]), bits)
            sizes[i] = -size if words[i, 0] & np.uint64(1) else size
            if not size:
                not_kept.append(int(i))
        if not_kept:
            sizes[not_kept] = self._sizes(len(not_kept), source, bits)
        return sizes

    def _size(self, word: int, second: int, bits: reference.Bits) -> int:
        """The number for two words, or 0 if it is not kept."""
        first, place = strip(self._strips.resolve(word, bits))
        inside = second & ((1 << place) - 1)
        kept = Fraction(first, first + inside)
        if _below(second >> place, 64 - place, kept, inside * self._rate, bits):
            return first + inside
        return 0

    def _doubts(self) -> np.ndarray:
        """Of 2**64, how much more is doubtful for each step into a strip, rounded up.

        A step r past the first number f is kept with chance exp(-rate r) f / (f + r), which is at
        least 1 - r (rate + 1 / f).
        """
        rate = (self._rate * 2**64).__ceil__()
        strips = (strip(i) for i in range(self._strips.floors.size))
        return np.array(
            [place and rate - (-(2**64) // first) for first, place in strips], np.uint64
        )


def _below(prefix: int, known: int, ratio: Fraction, gamma: Fraction, bits: reference.Bits) -> bool:
    """Is a uniform number with these leading bits below ratio exp(-gamma)? Draws as needed."""
    while True:
        low, high = exp_bounds(gamma, known)
        if prefix + 1 <= low * ratio:
            return True
        if prefix >= high * ratio:
            return False
        prefix, known = prefix << 64 | bits.take(64), known + 64


@lru_cache(16)
def share_sampler(scale: Fraction, count: int) -> ShareSampler | LaplaceSampler:
    """The sampler of one of so many shares; a single one is the whole noise."""
    return laplace_sampler(scale) if count == 1 else ShareSampler(scale, count)


class ShareSource:
    """A source of bits under which Laplace or Gaussian noise is added as one of so many shares.

    What is made with it is not private by itself; every other kind of noise is added whole.

    Parameters
    ----------
    of : int
        TODO.
    source : Source or None, default=None
        TODO.
    """

    def __init__(self, of: int, source: Source | None = None) -> None:
        self.of, self.added = of, 0
        self.insecure = stated(source) == INSECURE
        self._source = source or SystemSource()

    def __repr__(self) -> str:
        return f"ShareSource(of={self.of}, source={self._source!r})"

    def fill(self, out: np.ndarray) -> None:
        """TODO.

        Parameters
        ----------
        out : ndarray
            TODO.
        """
        self._source.fill(out)

    def add_laplace(self, cells: np.ndarray, scale: Fraction) -> None:
        """Add a share of Laplace noise to every cell; `added` counts them.

        Parameters
        ----------
        cells : ndarray
            TODO.
        scale : Fraction
            TODO.
        """
        share_sampler(scale, self.of).add(cells, self._source)
        self.added += cells.size

    def add_gaussian(self, cells: np.ndarray, variance: Fraction) -> None:
        """Add Gaussian noise of its part of the variance to every cell; `added` counts them.

        Parameters
        ----------
        cells : ndarray
            TODO.
        variance : Fraction
            TODO.
        """
        gaussian_sampler(variance / self.of).add(cells, self._source)
        self.added += cells.size

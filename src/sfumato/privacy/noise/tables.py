"""Fast exact samplers: a table decides almost every draw, integer arithmetic the remaining ones.

Scale and number of draws, both public, choose the sampler: the reference one for a few draws, then
tables, which are the larger, and take the longer to make, the more is drawn. All are exact.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sfumato.kernels import noise as kernels
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.noise.exact.distributions import (
    Digit,
    ExactDistribution,
    HalfGaussian,
    SignedDigit,
    SizeOfLaplace,
    exp_bounds,
)
from sfumato.privacy.random_source import Source

__all__ = [
    "CHUNK",
    "GaussianSampler",
    "LaplaceSampler",
    "ReferenceSampler",
    "SamplingTable",
    "gaussian_sampler",
    "laplace_sampler",
    "parts",
]

CHUNK = 1 << 14  # draws at a time: their words and numbers stay in the second cache
BITS = 63  # of a word that choose an outcome; the lowest is a sign
FEW = 4  # draws for which no table is made


class TableSizes(NamedTuple):
    """What is looked up in one table, and in how many."""

    digit: int = 10  # bits of a Laplace digit
    direct: int = 1024  # largest Laplace scale, and
    strips: int = 4096  # largest Gaussian sigma, with a table entry for every number


LARGE = TableSizes()
# From the most draws to the fewest: the entries of a table cost as much as a hundred draws each.
SIZES = ((1 << 19, LARGE), (1 << 12, TableSizes(8, 32, 128)), (0, TableSizes(4, 2, 32)))


class SamplingTable:
    """Floors of a cumulative distribution, and a guide from leading bits to the first candidate."""

    def __init__(self, distribution: ExactDistribution) -> None:
        self.distribution = distribution
        self.floors: np.ndarray = np.array(distribution.floors(BITS), np.uint64)
        leading = min(max(self.floors.size.bit_length() + 2, 8), 16)
        self.shift: int = BITS - leading
        starts = np.arange(1 << leading, dtype=np.uint64) << np.uint64(self.shift)
        self.guide: np.ndarray = np.searchsorted(self.floors, starts).astype(np.uint32)

    @property
    def looked_up(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Arrays that the kernels search."""
        return self.floors, self.guide, self.shift

    def resolve(self, word: int, bits: reference.Bits) -> int:
        """Return the outcome for a word, drawing more bits as needed."""
        return self.distribution.resolve(int(word) >> 1, BITS, bits)


class ReferenceSampler:
    """Sampler of a few integers by `draw(parameter, bits)`, which needs no table."""

    def __init__(
        self, draw: Callable[[Fraction, reference.Bits], int], parameter: Fraction
    ) -> None:
        self._draw, self._parameter = draw, parameter

    def add(self, cells: np.ndarray, source: Source) -> None:
        """Add noise to every number of a one-dimensional int64 array."""
        bits = reference.Bits(source)
        for i in range(cells.size):
            cells[i] += self._draw(self._parameter, bits)


class LaplaceSampler:
    """Sampler of integers with probability proportional to exp(-|k| / scale).

    A small scale takes one table. A large one takes a table for each digit, since the digits of a
    geometric number are independent.
    """

    def __init__(self, scale: Fraction, sizes: TableSizes = LARGE) -> None:
        rate, self._digit = 1 / scale, sizes.digit
        if scale <= sizes.direct:
            self._tables = [SamplingTable(SizeOfLaplace(rate))]
            return
        lower = -(-(8 * scale / sizes.direct).__ceil__().bit_length() // self._digit)
        base = 1 << self._digit
        self._tables = [SamplingTable(SignedDigit(rate, base))]
        for position in range(1, lower):
            self._tables.append(SamplingTable(Digit(rate * base**position, base)))
        self._tables.append(SamplingTable(Digit(rate * base**lower)))

    def add(self, cells: np.ndarray, source: Source) -> None:
        """Add noise to every number of a one-dimensional int64 array."""
        bits = reference.Bits(source)
        words, undecided = np.empty(CHUNK, np.uint64), np.empty(CHUNK, np.int64)
        digits = np.empty(CHUNK, np.int64)
        for part in parts(cells):
            if len(self._tables) == 1:
                source.fill(words[: part.size])
                self._direct(words[: part.size], undecided, bits, part)
            else:
                self._by_digits(words[: part.size], undecided, bits, digits[: part.size], source)
                kernels.add_signed(digits[: part.size], part)

    def _direct(
        self, words: np.ndarray, undecided: np.ndarray, bits: reference.Bits, out: np.ndarray
    ) -> None:
        """Add numbers from one table."""
        (table,) = self._tables
        missing = kernels.add_sizes(words, *table.looked_up, undecided, out)
        for i in undecided[:missing]:
            size = table.resolve(words[i], bits)
            out[i] += -size if words[i] & np.uint64(1) else size

    def _by_digits(
        self,
        words: np.ndarray,
        undecided: np.ndarray,
        bits: reference.Bits,
        out: np.ndarray,
        source: Source,
    ) -> None:
        """Fill an array with numbers whose digits come from a table each."""
        out[:] = 0
        for number, table in enumerate(self._tables):
            shift = self._digit * number + (number > 0)  # the sign is below the lowest digit
            source.fill(words)
            missing = kernels.add_digits(words, *table.looked_up, shift, undecided, out)
            for i in undecided[:missing]:
                out[i] += table.resolve(words[i], bits) << shift


class GaussianSampler:
    """Sampler of integers with probability proportional to exp(-k**2 / (2 sigma**2)).

    A small sigma takes a table of all sizes. A large one takes a table of strips, each as wide as a
    power of two and as high as its highest point; a point of a strip is accepted with the ratio of
    its height to that. Rejected points are drawn afresh.
    """

    def __init__(self, variance: Fraction, sizes: TableSizes = LARGE) -> None:
        self._variance = variance
        self._shift = 0
        while variance > (sizes.strips << self._shift) ** 2:
            self._shift += 1
        narrow = variance / 4**self._shift
        self._table = SamplingTable(HalfGaussian(narrow, both=self._shift == 0))
        if self._shift:
            self._slopes = self._doubts()

    def add(self, cells: np.ndarray, source: Source) -> None:
        """Add noise to every number of a one-dimensional int64 array."""
        bits = reference.Bits(source)
        words, undecided = np.empty((CHUNK, 2), np.uint64), np.empty(CHUNK, np.int64)
        rejected: list[np.ndarray] = []
        for number, part in enumerate(parts(cells)):
            if self._shift:
                source.fill(words[: part.size])
                again = self._by_strips(words[: part.size], undecided, bits, part)
                rejected.append(again + number * CHUNK)
            else:
                flat = words.reshape(-1)[: part.size]
                source.fill(flat)
                missing = kernels.add_sizes(flat, *self._table.looked_up, undecided, part)
                for i in undecided[:missing]:
                    size = self._table.resolve(flat[i], bits)
                    part[i] += -size if flat[i] & np.uint64(1) else size
        if any(each.size for each in rejected):
            places = np.concatenate(rejected)
            afresh = np.zeros(places.size, np.int64)
            self.add(afresh, source)
            cells[places] += afresh

    def _by_strips(
        self, words: np.ndarray, undecided: np.ndarray, bits: reference.Bits, out: np.ndarray
    ) -> np.ndarray:
        """Add the accepted points; return the indices of the rejected ones, sorted."""
        strips = *self._table.looked_up, self._shift, self._slopes
        rejected = np.empty(out.size, np.int64)
        missing, last = kernels.add_strips(words.reshape(-1), *strips, undecided, rejected, out)
        again = []
        for i in undecided[:missing]:
            point = self._point(int(words[i, 0]), int(words[i, 1]), bits)
            if point is None:
                again.append(int(i))
            else:
                out[i] += point
        return np.sort(np.append(rejected[:last], np.array(again, np.int64)))

    def _point(self, first: int, second: int, bits: reference.Bits) -> int | None:
        """Return the number for two words, or None if it is rejected."""
        strip = self._table.resolve(first, bits)
        edge, inside = strip << self._shift, second & ((1 << self._shift) - 1)
        size, known = edge + inside, 64 - self._shift
        gamma = (size**2 - edge**2) / (2 * self._variance)
        minus = first & 1
        if (size == 0 and minus) or not _below_exp(second >> self._shift, known, gamma, bits):
            return None
        return -size if minus else size

    def _doubts(self) -> np.ndarray:
        """Return factors of what a step into a strip loses of 2**64: two upper and a lower bound.

        A step r into strip k, at width k + r, is accepted with probability exp(-g) for
        g = r (2 width k + r) / (2 variance), which is at most r (width - 1 + 2 width k) / (2
        variance) and at least r (2 width k) / (2 variance).
        """
        width, unit = 1 << self._shift, 2**64 / (2 * self._variance)
        high = ((width - 1) * unit).__ceil__(), (2 * width * unit).__ceil__()
        return np.array([*high, (2 * width * unit).__floor__()], np.uint64)


def _below_exp(prefix: int, known: int, gamma: Fraction, bits: reference.Bits) -> bool:
    """Return whether a uniform number with these leading bits is below exp(-gamma)."""
    while True:
        low, high = exp_bounds(gamma, known)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix, known = prefix << 64 | bits.take(64), known + 64


def parts(cells: np.ndarray) -> Iterator[np.ndarray]:
    """Yield consecutive chunks of an array."""
    for start in range(0, cells.size, CHUNK):
        yield cells[start : start + CHUNK]


def laplace_sampler(scale: Fraction, size: int) -> ReferenceSampler | LaplaceSampler:
    """Return the sampler of `size` numbers of a scale; its tables are cached."""
    if size <= FEW:
        return ReferenceSampler(reference.laplace, scale)
    return _laplace_tables(scale, _table_sizes(size))


def gaussian_sampler(variance: Fraction, size: int) -> ReferenceSampler | GaussianSampler:
    """Return the sampler of `size` numbers of a variance; its tables are cached."""
    if size <= FEW:
        return ReferenceSampler(reference.gaussian, variance)
    return _gaussian_tables(variance, _table_sizes(size))


def _table_sizes(size: int) -> TableSizes:
    """Return the sizes of tables for so many draws."""
    return next(sizes for draws, sizes in SIZES if size >= draws)


_laplace_tables = lru_cache(16)(LaplaceSampler)
_gaussian_tables = lru_cache(16)(GaussianSampler)

"""Released HyperLogLog: how many different keys there were, from one flipped bit a register."""

import math
from functools import cached_property
from statistics import NormalDist
from typing import Annotated

import numpy as np

from sfumato._require import fraction, whole
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._responses import Answered

__all__ = ["LARGEST_COUNT", "PRECISION", "ReleasedHyperLogLog", "levels"]

PRECISION = whole(4, 18)
LARGEST_COUNT = whole(1, 2**62)
# Shares of level 1 for one of every other level: it alone tells small counts, with no lower level
# to help it. Of 1, 4, 5, 7, 9 and 13, seven keep the worst relative error over counts from a
# quarter of the registers to the largest the least, or within 2 %, at epsilon 0.5 to 4.
FIRST = 7
BEYOND = 16  # times the largest count are estimates looked for
OCTAVE = 8  # counts tried in each doubling before the best one is refined


class ReleasedHyperLogLog(Answered):
    """The number of different keys, from one bit of each register that was flipped at random.

    Made by `HyperLogLog.release`. Register j tells whether it reached `levels(...)[j]`, which is
    public. Guarantee: epsilon-differential privacy with a public seed, as its `statement` says;
    |estimate - true| <= error_bound(c) with probability about c.
    Parameters: precision and seed of the sketch; largest, the largest count expected. Merge is
    refused: that a register of a union reached its level is no function of flipped bits.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import HyperLogLog
    >>> seen = HyperLogLog(12).update(range(30_000))
    >>> told = seen.release(epsilon=4, largest=100_000, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate() - 30_000) <= told.error_bound(0.9999))
    True

    Plain sketches of counts are not private (Desfontaines, Lochbihler and Basin 2019); flipped
    bits: Hehir, Ting and Cormode 2023, whose bitmaps keep every level and need that much more room.
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    largest: Annotated[int, LARGEST_COUNT]
    _words: np.ndarray
    _of = "HyperLogLog"

    def estimate(self) -> float:
        """The number of different keys that makes the bits likeliest, up to 16 times `largest`."""
        return self._likeliest[0]

    def error_bound(self, confidence: float = 0.99) -> float:
        """How many keys the estimate may be off by, with about this probability.

        The counts whose likelihood is not too far below the highest (Wilks 1938). Keys are taken to
        fall into registers independently, which only makes it wider.
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        here, top = self._likeliest
        bar = top - NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
        counts = np.sort(np.append(self._counts, here))
        inside = np.flatnonzero(self._log_likelihood(counts) >= bar - 1e-9)
        if inside[-1] == counts.size - 1:
            return math.inf
        low = counts[0]
        if inside[0] > 0:
            low = self._crossing(bar, counts[inside[0]], counts[inside[0] - 1])
        high = self._crossing(bar, counts[inside[-1]], counts[inside[-1] + 1])
        return float(max(here - low, high - here))

    def _crossing(self, bar: float, inside: float, outside: float) -> float:
        """Where between two counts the likelihood falls below the bar."""
        for _ in range(50):
            middle = (inside + outside) / 2
            if self._log_likelihood(np.array([middle]))[0] >= bar:
                inside = middle
            else:
                outside = middle
        return outside

    @cached_property
    def _likeliest(self) -> tuple[float, float]:
        """The count of the highest likelihood, and its logarithm."""
        best = int(np.argmax(self._log_likelihood(self._counts)))
        low = self._counts[max(best - 1, 0)]
        high = self._counts[min(best + 1, self._counts.size - 1)]
        for _ in range(24):  # the best third of nine points, again and again
            tried = np.linspace(low, high, 9)
            at = int(np.argmax(self._log_likelihood(tried)))
            low, high = tried[max(at - 1, 0)], tried[min(at + 1, 8)]
        return float(tried[at]), float(self._log_likelihood(tried[at : at + 1])[0])

    @cached_property
    def _counts(self) -> np.ndarray:
        octaves = math.log2(BEYOND * self.largest)
        return np.append(0.0, 2.0 ** np.arange(-1, octaves, 1 / OCTAVE))

    def _log_likelihood(self, counts: np.ndarray) -> np.ndarray:
        """For each count n: a register reaches level v with chance 1 - exp(-n 2**(1 - v) / m)."""
        ones, sizes = self._tallies
        rate = 2.0 ** -np.arange(sizes.size) / 2**self.precision
        reached = -np.expm1(-counts[:, np.newaxis] * rate)
        shown = self._flip + (1 - 2 * self._flip) * reached
        return np.asarray(np.log(shown) @ ones + np.log1p(-shown) @ (sizes - ones))

    @cached_property
    def _tallies(self) -> tuple[np.ndarray, np.ndarray]:
        """How many bits of each level are set, and how many there are."""
        at = levels(self.precision, self.largest) - 1
        bits = np.unpackbits(self._words.view(np.uint8), count=at.size, bitorder="little")
        return np.bincount(at, bits), np.bincount(at).astype(np.float64)

    def _layout(self) -> dict[str, Cells]:
        return {"_words": Cells(np.uint64, (-(-(2**self.precision) // 64),), "")}

    def _check_state(self) -> None:
        if self.precision < 6 and self._words[0] >> np.uint64(2**self.precision):
            raise ValueError("a bit is set beyond the last.")


def levels(precision: int, largest: int) -> np.ndarray:
    """The level that each register's bit is about: 1 up to one that `largest` keys seldom reach.

    Registers in order, FIRST shares of them at level 1 and one at each further level. Nothing but
    the register's number and public parameters decides.

    >>> levels(4, 64).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3]
    """
    size = 2**precision
    highest = min(max((largest - 1).bit_length() - precision, 0) + 1, 64 - precision + 1)
    shares = highest - 1 + FIRST
    return np.asarray(np.maximum(1, np.arange(size) * shares // size - FIRST + 2))

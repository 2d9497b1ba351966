"""A released Count-Min: private counts of keys, unbiased, with errors of both signs."""

import math
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import fraction, whole
from sfumato.hashing import BLOCK, KeyColumn
from sfumato.kernels import counters
from sfumato.sketch._chebyshev import row_miss
from sfumato.sketch._noisy_table import (
    NoisyTable,
    Spread,
    all_rows_short,
    largest_moment,
    moment_share,
    narrowest,
)

__all__ = ["ReleasedCountMin"]


class ReleasedCountMin(NoisyTable):
    """Counts of keys that may leave the curator; made by `CountMin.release`.

    Guarantee: as its statement says; and |estimate - true| <= error_bound(c) with probability c per
    key, over seeds and noise. The least of noisy cells would be too low; instead each row tells
    (cell - total / width) / (1 - 1 / width), which is unbiased, and the median row is taken.
    Parameters: those of the sketch, and the law and scale of the noise. It does not know whether
    keys were integers or text: ask with the type that was counted.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import CountMin
    >>> seen = CountMin(1024, depth=5).update(["tea"] * 5000)
    >>> told = seen.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate(["tea"])[0] - 5000) < told.error_bound(0.999999))
    True

    Pagh and Thorup 2022; the mean of the other counts taken off: Deng and Rafiei 2007.
    """

    width: Annotated[int, whole(2, 2**32)]
    depth: Annotated[int, whole(1, 32)]
    version = 2  # a key has one hash, whatever its type
    _of = "CountMin"

    def estimate(self, keys: Any) -> np.ndarray:
        """The count of every key."""
        column = KeyColumn(keys)
        out, slots = np.empty(column.size), np.empty(min(BLOCK, column.size), np.uint32)
        for start, hashes in column.blocks(self.seed):
            rows = np.empty((self.depth, hashes.size), np.int64)
            part = out[start : start + hashes.size]
            counters.middle(self._table, hashes, slots, rows, part)
        return (out - self.estimate_total() / self.width) / (1 - 1 / self.width)

    def estimate_total(self) -> float:
        """The sum of all counts: the mean of the sums of the rows."""
        return float(self._sums.mean())

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by, with this probability for each key.

        Parts of the chance 1 - confidence go to the mean of all noise, and with it the total F1, to
        F2 being told too low by all noisy rows, and to a bad median: half of the rows, each with
        chance p, have either noise past its exact tail or collisions past Markov's bound
        F1 / (width p) and past Chebyshev's sqrt(F2 (1 - 1 / width) / (width p)).
        """
        miss = 1 - fraction.check("ReleasedCountMin", "confidence", confidence)
        mean_noise = self._law.mean_reach(self.depth * self.width, miss / 16)
        total = max(self.estimate_total() + self.width * mean_noise, 0.0)
        rest = miss * 15 / 16
        low = rest * moment_share(self.width - 1, self.depth, rest)
        moment = min(total**2, self._largest_moment(low))

        def collisions(chance: float) -> float:
            chebyshev = math.sqrt(moment * (1 - 1 / self.width) / (self.width * chance))
            return min(total / (self.width * chance), chebyshev)

        row = narrowest(collisions, self._law.reach, row_miss(self.depth, rest - low))
        return (row + mean_noise) / (1 - 1 / self.width)

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.asarray(self._table.sum(axis=1, dtype=np.float64))

    def _largest_moment(self, miss: float) -> float:
        """A bound of F2 that holds with chance 1 - miss, from rows centred at their mean.

        Centred cells have E sum of squares = (1 - 1 / width) F2 + (width - 1) variance of noise.
        """
        width, law = self.width, self._law
        grow = width / (width - 1)
        fourth = (width - 1) / width * ((width - 1) * law.fourth - (width - 3) * law.variance**2)
        spread = Spread(2 / (width - 1), 4 * law.variance * grow, fourth * grow**2)
        told = self._squares(self._sums / width) - (width - 1) * law.variance
        return largest_moment(float(told.max()) * grow, spread, all_rows_short(self.depth, miss))

"""A released Count sketch: private signed counts of keys, unbiased."""

import math
from typing import Annotated, Any

import numpy as np

from sfumato._require import fraction, one_of, whole
from sfumato.hashing import BLOCK, KeyColumn
from sfumato.kernels import counters
from sfumato.sketch._chebyshev import row_miss
from sfumato.sketch._heavy import largest
from sfumato.sketch._noisy_table import (
    NoisyTable,
    Spread,
    all_rows_short,
    largest_moment,
    moment_share,
    narrowest,
)

__all__ = ["ReleasedCountSketch"]


class ReleasedCountSketch(NoisyTable):
    """Total weights of keys that may leave the curator; made by `CountSketch.release`.

    Guarantee: as its statement says; estimates by the mean are unbiased; |estimate - true| <=
    error_bound(c) with probability c per key, over seeds and noise. No key is remembered.
    Parameters: those of the sketch, and the law and scale of the noise. It does not know whether
    keys were integers or text: ask with the type that was counted.

    >>> from sfumato.sketch import CountSketch
    >>> told = CountSketch(1024).update(["tea", "rum"], [5000, -5000]).release(1, weight=5000)
    >>> told.estimate(["tea", "rum"]).shape
    (2,)

    Pagh and Thorup 2022; Zhao, Qiao, Redberg, Agrawal, El Abbadi and Wang 2022.
    """

    width: Annotated[int, whole(2, 2**31)]
    depth: Annotated[int, whole(1, 32)]
    combine: Annotated[str, one_of(("mean", "median"))]
    version = 2  # a key has one hash, whatever its type
    _of = "CountSketch"

    def estimate(self, keys: Any) -> np.ndarray:
        """The total weight of every key."""
        column = KeyColumn(keys)
        out, slots = np.empty(column.size), np.empty(min(BLOCK, column.size), np.uint32)
        for start, hashes in column.blocks(self.seed):
            part = out[start : start + hashes.size]
            if self.combine == "mean":
                counters.mean(self._table, hashes, slots, part)
            else:
                part[:] = self._median(hashes)
        return out

    def heavy_hitters(self, k: int, candidates: Any = None) -> tuple[list[Any], np.ndarray]:
        """The k candidates of the largest weight, whatever its sign, and their estimates by median.

        Parameters: k, how many; candidates, a public column of keys to choose among, such as the
        catalogue: which keys occurred is not released.
        """
        k = whole(1).check("ReleasedCountSketch", "k", k)
        if candidates is None:
            raise ValueError(
                "ReleasedCountSketch: a release remembers no keys; give candidates, a public "
                "column of keys to choose among."
            )
        return largest(k, KeyColumn(candidates), self.seed, self._median)

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by, with this probability for each key.

        A part of the chance 1 - confidence goes to F2 being told too low by all noisy rows; where
        so few cells cannot tell it, the bound is infinite. The rest goes to collisions past
        Chebyshev's bound or noise past its tail: in the mean of the rows, or in half of them.
        """
        miss = 1 - fraction.check("ReleasedCountSketch", "confidence", confidence)
        low = miss * moment_share(self.width, self.depth, miss)
        moment, law = self._largest_moment(low), self._law
        alike = self.depth if self.combine == "mean" else 1  # rows whose errors are averaged
        chance = miss - low if self.combine == "mean" else row_miss(self.depth, miss - low)
        return narrowest(
            lambda p: math.sqrt(moment / (self.width * alike * p)),
            lambda p: law.mean_reach(alike, p),
            chance,
        )

    def _largest_moment(self, miss: float) -> float:
        """A bound of F2 that holds with chance 1 - miss: E row of squares = F2 + width variance."""
        width, law = self.width, self._law
        spread = Spread(2 / width, 4 * law.variance, width * (law.fourth - law.variance**2))
        told = self._squares(np.zeros(self.depth)) - width * law.variance
        return largest_moment(float(told.max()), spread, all_rows_short(self.depth, miss))

    def _median(self, hashes: np.ndarray) -> np.ndarray:
        out, slots = np.empty(hashes.size), np.empty(hashes.size, np.uint32)
        rows = np.empty((self.depth, hashes.size), np.int64)
        counters.median(self._table, hashes, slots, rows, out)
        return out

"""A released AMS: the private sum of squared counts of a stream, and inner products of two."""

import math
from collections.abc import Iterable
from typing import Annotated, Self

import numpy as np

from sfumato._require import fraction, one_of, whole
from sfumato.sketch._chebyshev import row_miss
from sfumato.sketch._noisy_table import (
    NoisyTable,
    Spread,
    all_rows_short,
    largest_moment,
    moment_share,
)

__all__ = ["ReleasedAMS"]


class ReleasedAMS(NoisyTable):
    """The second frequency moment F2 of a stream, which may leave the curator; by `AMS.release`.

    Guarantee: as its statement says; and |estimate - F2| <= error_bound(c) with probability c, over
    seeds and noise. A row's sum of squares is too high by width times the variance of the noise,
    which is taken off; so the estimate may be negative where the noise hides the stream.
    Parameters: those of the sketch, and the law and scale of the noise.

    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import AMS
    >>> seen = AMS(256).update([1, 2], [3000, 4000])
    >>> told = seen.release(epsilon=1, weight=4000, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate() - 5000**2) <= told.error_bound(0.999))
    True

    Thesis 3.2.2, where (3.11) is the sum of squares times L / (L - 1); without that factor, as
    here, it is unbiased.
    """

    width: Annotated[int, whole(2, 2**24)]
    depth: Annotated[int, whole(1, 32)]
    kind: Annotated[str, one_of(("fast", "tug-of-war"))]
    _of = "AMS"

    def estimate(self) -> float:
        """F2: the sum of the squared counts."""
        return float(np.median(self._moments()))

    def inner(self, other: Self) -> float:
        """The inner product of the counts of two streams released alike.

        The noises of two releases are independent, so that nothing is taken off; with itself a
        release gives F2.
        """
        self._check_same(other, "compare")
        if self == other:
            return self.estimate()
        products = np.einsum("rj,rj->r", self._rows(), other._rows())
        return float(np.median(products / self._shared))

    def error_bound(self, confidence: float = 0.99, other: Self | None = None) -> float:
        """What the estimate, or else the inner product with the other, may be off by.

        It is kept with this probability. The median of rows is that far off only where half of the
        rows are (Chebyshev), whose variance grows with F2; F2 is bounded by the estimate itself,
        given that it is within the bound. For an inner product a part of the chance goes to each F2
        being told too low by all rows, and the rest to the median. Few cells cannot tell F2: the
        bound is then infinite.
        """
        miss = 1 - fraction.check("ReleasedAMS", "confidence", confidence)
        if other is not None:
            self._check_same(other, "compare")
            if self != other:
                return self._inner_bound(other, miss)
        bad = row_miss(self.depth, miss)
        moment = largest_moment(self.estimate(), self._spread(), 1 / bad)
        return math.sqrt(self._spread().at(moment) / bad)

    def _inner_bound(self, other: Self, miss: float) -> float:
        low = miss * moment_share(self.width, self.depth, miss)
        mine, yours = self._largest_moment(low / 2), other._largest_moment(low / 2)
        v, u, shared = self._law.variance, other._law.variance, self._shared
        noise = (mine * u + yours * v) / shared + self.width * u * v / shared**2
        spread = 2 / self.width * mine * yours + noise
        return math.sqrt(spread / row_miss(self.depth, miss - low))

    def _to_agree(self, other: Self) -> Iterable[str]:
        return ("width", "depth", "seed", "kind")  # the noise may differ

    @property
    def _shared(self) -> int:
        """How many cells of a row hold each key; its sums of squares are that many times F2."""
        return 1 if self.kind == "fast" else self.width

    def _moments(self) -> np.ndarray:
        squares = self._squares(np.zeros(self.depth))
        return (squares - self.width * self._law.variance) / self._shared

    def _spread(self) -> Spread:
        """Of a row: 2 F2**2 / width of the signs, and the noise's own and with the cells."""
        law, shared = self._law, self._shared
        fixed = self.width * (law.fourth - law.variance**2) / shared**2
        return Spread(2 / self.width, 4 * law.variance / shared, fixed)

    def _largest_moment(self, miss: float) -> float:
        deviations = all_rows_short(self.depth, miss)
        return largest_moment(float(self._moments().max()), self._spread(), deviations)

    def _rows(self) -> np.ndarray:
        return self._table.astype(np.float64)

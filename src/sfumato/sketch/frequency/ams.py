"""AMS: the sum of squared counts of a stream, and inner products of two, in fixed memory.

A released AMS: the private sum of squared counts of a stream, and inner products of two.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import integer_weights
from sfumato.core.hashing import BLOCK
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import counters
from sfumato.kernels.sketch import counters as moments
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import SEED, KeyedSketch, WeighedRelease, check_heaviest, heaviest
from sfumato.sketch.concentration import median_rows, row_miss
from sfumato.sketch.frequency.noisy_table import (
    NoisyTable,
    SecondMomentVariance,
    TableSensitivity,
    all_rows_short,
    largest_moment,
    moment_share,
    planned,
)

__all__ = ["AMS", "ReleasedAMS"]


class ReleasedAMS(NoisyTable):
    """The second frequency moment F2 of a stream, which may leave the curator; by `AMS.release`.

    Thesis 3.2.2, where (3.11) is the sum of squares times L / (L - 1); without that factor, as
    here, it is unbiased.

    those of the sketch, and the law and scale of the noise.

    Notes
    -----
    **Guarantee.** As its statement says; and |estimate - F2| <= error_bound(c) with probability c,
    over seeds and noise. A row's sum of squares is too high by width times the variance of the
    noise, which is taken off; so the estimate may be negative where the noise hides the stream.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import AMS
    >>> seen = AMS(256).update([1, 2], [3000, 4000])
    >>> told = seen.release(epsilon=1, weight=4000, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate() - 5000**2) <= told.error_bound(0.999))
    True
    """

    width: Annotated[int, integer(2, 2**24)]
    depth: Annotated[int, integer(1, 32)]
    kind: Annotated[str, one_of(("fast", "tug-of-war"))]
    _of = "AMS"

    def estimate(self) -> float:
        """F2: the sum of the squared counts.

        Returns
        -------
        float
            TODO.
        """
        return float(np.median(self._moments()))

    def inner(self, other: Self) -> float:
        """The inner product of the counts of two streams released alike.

        The noises of two releases are independent, so that nothing is taken off; with itself a
        release gives F2.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The inner product of the counts of two streams released alike.
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

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        other : Self or None, default=None
            TODO.

        Returns
        -------
        float
            What the estimate, or else the inner product with the other, may be off by.
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
        v, u, shared = self._distribution.variance, other._distribution.variance, self._shared
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
        return (squares - self.width * self._distribution.variance) / self._shared

    def _spread(self) -> SecondMomentVariance:
        """Of a row: 2 F2**2 / width of the signs, and the noise's own and with the cells."""
        distribution, shared = self._distribution, self._shared
        fixed = self.width * (distribution.fourth - distribution.variance**2) / shared**2
        return SecondMomentVariance(2 / self.width, 4 * distribution.variance / shared, fixed)

    def _largest_moment(self, miss: float) -> float:
        deviations = all_rows_short(self.depth, miss)
        return largest_moment(float(self._moments().max()), self._spread(), deviations)

    def _rows(self) -> np.ndarray:
        return self._table.astype(np.float64)


class AMS(WeighedRelease[ReleasedAMS], KeyedSketch):
    """The second frequency moment F2 (the sum over keys of count squared) of a turnstile stream.

    Parameters
    ----------
    width : int, default=1024
        Cells averaged, up to 2**24.
    depth : int, default=5
        Rows.
    seed : int, default=0
        Of all hashes.
    kind : str, default="fast"
        "fast" (a key changes one cell a row) or "tug-of-war" (it changes all; the original).
        Weights are whole numbers below 2**31 in size; when the sum of their sizes passes 2**63 - 1
        the update raises and changes nothing. Merges exactly.

    Notes
    -----
    **Guarantee.** |estimate - F2| <= error_bound(c) * F2 with probability c: the mean over a row
    has variance at most 2 F2**2 / width (Chebyshev), and the median of the rows is taken.

    References
    ----------
    .. [1] Alon, Matias and Szegedy 1996; fast: Thorup and Zhang 2004; thesis 2.3.2.7.

    Examples
    --------
    >>> round(AMS(width=1024).update([1, 1, 1, 2]).estimate())
    10
    """

    width: Annotated[int, integer(2, 2**24)]
    depth: Annotated[int, integer(1, 32)]
    seed: Annotated[int, SEED]
    kind: Annotated[str, one_of(("fast", "tug-of-war"))]
    mass: int
    heaviest: int
    keys: str
    _table: np.ndarray
    version = 3  # a key has one hash, whatever its type
    _scalars = {"mass": 0, "heaviest": 0, "keys": ""}

    def __init__(
        self, width: int = 1024, depth: int = 5, *, seed: int = 0, kind: str = "fast"
    ) -> None:
        self._set_parameters(width=width, depth=depth, seed=seed, kind=kind)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, **parameters: Any) -> Self:
        """The smallest sketch whose relative error is within `error` with this probability.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The smallest sketch whose relative error is within `error` with this probability.
        """
        error = fraction.check("AMS", "error", error)
        miss = 1 - fraction.check("AMS", "confidence", confidence)
        width, depth = median_rows(2.0, error, miss)
        return cls(width, depth, **parameters)

    def update(
        self, keys: Column, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Add every key's weight, or one; a negative weight removes.

        Parameters
        ----------
        keys : array_like
            TODO.
        weights : array_like or None, default=None
            Integers.
        clip : int or None, default=None
            A public bound of their size that they are clipped to: each weight is then read by
            itself and none is refused, as a private release needs.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        weighted = integer_weights("AMS", weights, column.size, low=-(2**31) + 1, clip=clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = column.size if sizes is None else int(sizes.sum())
        self.mass = integer(0).check("AMS", "mass", self.mass + added)
        self.heaviest = max(self.heaviest, heaviest(sizes, column.size))
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            each = np.ones(hashes.size, np.int64) if weighted is None else weighted[rows]
            if self.kind == "fast":
                counters.add_signed(self._table, hashes, scratch, each)
            else:
                moments.pull(self._table, hashes, each)
        self._note_keys(column)
        return self

    def estimate(self) -> float:
        """F2: the sum of the squared counts.

        Returns
        -------
        float
            TODO.
        """
        return self.inner(self)

    def inner(self, other: Self) -> float:
        """The inner product of the counts of two streams sketched alike.

        Its error is within error_bound(c) times the root of the product of both F2.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The inner product of the counts of two streams sketched alike.
        """
        self._check_same(other, "compare")
        products = self._rows() * other._rows()
        row = products.sum(axis=1) if self.kind == "fast" else products.mean(axis=1)
        return float(np.median(row))

    def error_bound(self, confidence: float = 0.99) -> float:
        """The relative error of F2 that is kept with this probability.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The relative error of F2 that is kept with this probability.
        """
        miss = 1 - fraction.check("AMS", "confidence", confidence)
        return float(np.sqrt(2 / (self.width * row_miss(self.depth, miss))))

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedAMS]:
        """**Guarantee.** (epsilon, delta)-private for one unit: an event of absolute weight at most
        w changes by at most w one cell in each row (kind "fast") or every cell (kind "tug-of-war",
        whose noise is larger accordingly). With k changed cells the sensitivities are L1 = k w and
        L2 = sqrt(k) w. At delta 0 the noise is discrete Laplace, otherwise discrete Laplace or
        discrete Gaussian, whichever has the smaller variance.

        Examples
        --------
        >>> AMS(256).update([1, 1, 1, 2]).release(epsilon=1, delta=1e-9).statement.unit
        'event'
        """
        cells = self.depth * (1 if self.kind == "fast" else self.width)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed, kind=self.kind)
        touched = TableSensitivity(cells, weight, times=request.events)
        return planned(ReleasedAMS, shape, self._used(), request, touched, noise)

    def _used(self) -> np.ndarray:
        """The cells without those that only fill up a word of signs."""
        cells = self._table.reshape(-1)[: self.depth * self.width]
        return cells.reshape(self.depth, self.width)

    def _rows(self) -> np.ndarray:
        return self._used().astype(np.float64)

    def _join(self, other: Self) -> None:
        most = max(self.heaviest, other.heaviest)
        super()._join(other)  # which adds up the heaviest of both: too much, until it is done
        self.heaviest = most

    def _check_state(self) -> None:
        super()._check_state()
        if self.mass < 0 or self._table.min() < -self.mass or self._table.max() > self.mass:
            raise ValueError("a cell is out of range.")
        check_heaviest(self.heaviest, self.mass)

    def _layout(self) -> dict[str, Cells]:
        shape: tuple[int, ...] = self.depth, self.width
        if self.kind == "tug-of-war":  # signs come 64 at a time
            shape = (64 * -(-self.depth * self.width // 64),)
        return {"_table": Cells(np.int64, shape)}

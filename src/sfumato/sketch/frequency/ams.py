"""AMS: second moment of a stream and inner products of two, in fixed memory; and its release."""

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
    calibrated,
    largest_moment,
    moment_fraction,
)

__all__ = ["AMS", "ReleasedAMS"]


class ReleasedAMS(NoisyTable):
    """Private second frequency moment F2 of a stream; made by `AMS.release`.

    It has the parameters of the sketch, and the distribution (`noise`) and `scale` of the noise. It
    can be queried, compared, saved and published, and takes no updates.

    Notes
    -----
    **Guarantee.** Private as its `statement` says. ``|estimate - F2| <= error_bound(c)`` with
    probability at least c, over seeds and noise.

    The noise raises the expected sum of squares of a row by width times its variance, which is
    subtracted. So the estimate may be negative if the noise dominates.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.2.2, equation (3.11) (profile size from noisy projections).
       Its factor L / (L - 1) is omitted here, which makes the estimate unbiased.
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only: omit it
    >>> from sfumato.sketch import AMS
    >>> sketch = AMS(256).update([1, 2], [3000, 4000])
    >>> released = sketch.release(epsilon=1, weight=4000, source=InsecureSeededSource(1))
    >>> bool(abs(released.estimate() - 5000**2) <= released.error_bound(0.999))
    True
    """

    width: Annotated[int, integer(2, 2**24)]
    depth: Annotated[int, integer(1, 32)]
    kind: Annotated[str, one_of(("fast", "tug-of-war"))]
    _of = "AMS"

    def estimate(self) -> float:
        """Estimate the second moment F2.

        Returns
        -------
        float
            Estimated sum over keys of the squared count: the median of the rows, each unbiased.
            May be negative.
        """
        return float(np.median(self._moments()))

    def inner(self, other: Self) -> float:
        """Estimate the inner product with the counts of another release.

        Parameters
        ----------
        other : Self
            Release of a sketch of the same width, depth, seed and kind; the noise may differ.

        Returns
        -------
        float
            Estimated sum over keys of the product of both counts. No correction is needed, since
            the noises of two releases are independent. With itself, a release gives F2.
        """
        self._check_same(other, "compare")
        if self == other:
            return self.estimate()
        products = np.einsum("rj,rj->r", self._rows(), other._rows())
        return float(np.median(products / self._cells_per_key))

    def error_bound(self, confidence: float = 0.99, other: Self | None = None) -> float:
        """Bound the error of the estimate, or of an inner product.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        other : Self or None, default=None
            The other release, for the error of ``inner(other)``; None for that of `estimate`.

        Returns
        -------
        float
            Bound on the absolute error, computed from the release alone. Infinite if the table is
            too small to bound F2.

        Notes
        -----
        The median of rows has an error above t only if half of the rows have, by Chebyshev's
        inequality. Their variance grows with F2, which the estimate itself bounds as long as it is
        within the error bound. For an inner product, a part of the failure probability is for an
        underestimate of each F2 by all rows, and the remainder for the median.
        """
        miss = 1 - fraction.check("ReleasedAMS", "confidence", confidence)
        if other is not None:
            self._check_same(other, "compare")
            if self != other:
                return self._inner_bound(other, miss)
        bad = row_miss(self.depth, miss)
        moment = largest_moment(self.estimate(), self._row_variance(), 1 / bad)
        return math.sqrt(self._row_variance().at(moment) / bad)

    def _inner_bound(self, other: Self, miss: float) -> float:
        low = miss * moment_fraction(self.width, self.depth, miss)
        mine, yours = self._largest_moment(low / 2), other._largest_moment(low / 2)
        v, u, cells = self._distribution.variance, other._distribution.variance, self._cells_per_key
        noise = (mine * u + yours * v) / cells + self.width * u * v / cells**2
        variance = 2 / self.width * mine * yours + noise
        return math.sqrt(variance / row_miss(self.depth, miss - low))

    def _to_agree(self, other: Self) -> Iterable[str]:
        return ("width", "depth", "seed", "kind")  # the noise may differ

    @property
    def _cells_per_key(self) -> int:
        """Cells of a row that each key changes; a row's sum of squares is this multiple of F2."""
        return 1 if self.kind == "fast" else self.width

    def _moments(self) -> np.ndarray:
        squares = self._squares(np.zeros(self.depth))
        return (squares - self.width * self._distribution.variance) / self._cells_per_key

    def _row_variance(self) -> SecondMomentVariance:
        """Variance of a row: 2 F2**2 / width by the signs, then noise times cells, then noise."""
        distribution, cells = self._distribution, self._cells_per_key
        fixed = self.width * (distribution.fourth - distribution.variance**2) / cells**2
        return SecondMomentVariance(2 / self.width, 4 * distribution.variance / cells, fixed)

    def _largest_moment(self, miss: float) -> float:
        deviations = all_rows_short(self.depth, miss)
        return largest_moment(float(self._moments().max()), self._row_variance(), deviations)

    def _rows(self) -> np.ndarray:
        return self._table.astype(np.float64)


MASS = integer(0)


class AMS(WeighedRelease[ReleasedAMS], KeyedSketch):
    """Second frequency moment F2 of a stream with additions and removals, in fixed memory.

    F2 is the sum over keys of the squared count. It measures skew, and the size of a self-join;
    `inner` estimates that of a join of two streams. Merges exactly.

    Parameters
    ----------
    width : int, default=1024
        Cells per row, from 2 to 2**24. The variance is inversely proportional to it.
    depth : int, default=5
        Rows, from 1 to 32, of which the median is taken.
    seed : int, default=0
        Seed of the hash functions. Sketches merge only if their seeds are equal.
    kind : {"fast", "tug-of-war"}, default="fast"
        "fast": a key changes one cell per row. "tug-of-war": it changes all cells, as in the
        original sketch.

    Attributes
    ----------
    mass : int
        Sum of the absolute weights.
    heaviest : int
        Largest absolute weight of a single event.

    Notes
    -----
    **Guarantee.** ``|estimate - F2| <= error_bound(c) * F2`` with probability at least c: the
    estimate of a row has variance at most 2 F2**2 / width (Chebyshev's inequality), and the median
    of the rows is taken.

    Weights are integers below 2**31 in absolute value. An update that would raise the sum of the
    absolute weights above 2**63 - 1 raises ValueError and changes nothing.

    References
    ----------
    .. [1] Alon, Matias, Szegedy. "The Space Complexity of Approximating the Frequency Moments".
       STOC 1996 (kind "tug-of-war").
    .. [2] Thorup, Zhang. "Tabulation Based 4-Universal Hashing with Applications to Second Moment
       Estimation". SODA 2004 (kind "fast").
    .. [3] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.3.2.7 (AMS sketch). https://theses.hal.science/tel-01430156

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
        """Build the smallest sketch with a given relative error.

        Parameters
        ----------
        error : float
            Bound on the relative error of F2, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.
        **parameters : object
            Other parameters of `AMS`: seed, kind.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``.
        """
        error = fraction.check("AMS", "error", error)
        miss = 1 - fraction.check("AMS", "confidence", confidence)
        width, depth = median_rows(2.0, error, miss)
        return cls(width, depth, **parameters)

    def update(
        self, keys: Column, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Add weights of keys; a negative weight removes.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
        weights : array_like of shape (n,) or None, default=None
            Weight to add for each key, integers below 2**31 in absolute value; None adds 1.
        clip : int or None, default=None
            Public bound to which the absolute values of weights are clipped. Each weight is then
            read on its own and none is refused, as a private release needs: a value that is not a
            number counts as 0.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        weighted = integer_weights("AMS", weights, hashed.size, low=-(2**31) + 1, clip=clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = hashed.size if sizes is None else int(sizes.sum())
        self.mass = MASS.check("AMS", "mass", self.mass + added)
        self._weigh(heaviest(sizes, hashed.size))
        scratch = np.empty(min(BLOCK, hashed.size), np.uint32)
        for rows, hashes in hashed.blocks:
            each = np.ones(hashes.size, np.int64) if weighted is None else weighted[rows]
            if self.kind == "fast":
                counters.add_signed(self._table, hashes, scratch, each)
            else:
                moments.pull(self._table, hashes, each)
        self._note_keys(hashed)
        return self

    def estimate(self) -> float:
        """Estimate the second moment F2.

        Returns
        -------
        float
            Estimated sum over keys of the squared count.
        """
        return self.inner(self)

    def inner(self, other: Self) -> float:
        """Estimate the inner product with the counts of another stream.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included.

        Returns
        -------
        float
            Estimated sum over keys of the product of both counts. Its error is at most
            ``error_bound(c)`` times the square root of the product of both F2, with probability at
            least c.
        """
        self._check_same(other, "compare")
        products = self._rows() * other._rows()
        row = products.sum(axis=1) if self.kind == "fast" else products.mean(axis=1)
        return float(np.median(row))

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the relative error of F2.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - F2| / F2``; it depends on width and depth only.
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
        sensitivity = TableSensitivity(cells, weight, times=request.events)
        return calibrated(ReleasedAMS, shape, self._used(), request, sensitivity, noise)

    def _used(self) -> np.ndarray:
        """The cells without the padding to a multiple of 64."""
        cells = self._table.reshape(-1)[: self.depth * self.width]
        return cells.reshape(self.depth, self.width)

    def _rows(self) -> np.ndarray:
        return self._used().astype(np.float64)

    def _join(self, other: Self) -> None:
        most = max(self.heaviest, other.heaviest)
        super()._join(other)  # sums the heaviest of both, which is too large but safe until reset
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

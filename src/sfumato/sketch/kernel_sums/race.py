"""RACE: kernel sums at any query, from counts of locality-sensitive hashes, and its release.

The release answers unbiased private kernel sums at any number of queries without further cost.
"""

import math
from functools import cached_property, partial
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato.core.arrays import integer_weights
from sfumato.core.bounds import weighed_points
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import between, fraction, integer, positive
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import Sketch, WeighedRelease, check_heaviest, heaviest
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Sensitivity, calibrated_cells
from sfumato.sketch.kernel_sums.race_table import GROUPS, RaceTable, best_rows
from sfumato.sketch.lsh.base import Family

__all__ = ["Race", "ReleasedRace"]

SIZE_MISS = 1 / 16  # of the failure probability, for the number of points being underestimated


class ReleasedRace(RaceTable, NoisyCells):
    """Differentially private kernel sums at any query; made by `Race.release`.

    Attributes
    ----------
    rows, width, seed : int
        As in `Race`.
    kernel : Family
        As in `Race`.
    strata : str
        As in `Race`.
    counts : int
        Number of extra cells that each count all points.
    noise : {"Laplace", "Gaussian"}
        Distribution of the noise.
    scale : float
        Its scale (sigma, if Gaussian), in units of weight.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy as its `statement` says. Every estimate is
    unbiased over seeds and noise. Estimates are neither clipped nor rounded, so they may be below 0
    or above the number of points. Queries outside the bounds are moved to the nearest point inside.

    References
    ----------
    .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, Algorithms 1 (private sketch) and 2
       (query), without their rounding down. https://arxiv.org/abs/2006.09352

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Race
    >>> from sfumato.sketch.lsh import Euclidean
    >>> family = Euclidean(bandwidth=1.0, bounds=(0, 10), dimension=2)
    >>> released = Race(64, 256, family).update([[5, 5]] * 9000).release(
    ...     epsilon=1, source=InsecureSeededSource(1)
    ... )
    >>> bool(abs(released.estimate([[5, 5]])[0] - 9000) < 5 * released.noise_error())
    True
    """

    counts: Annotated[int, integer(0, 2**20)]
    _counts: np.ndarray
    _of = "Race"

    def size(self) -> float:
        """Estimate the number of points, by weight.

        Returns
        -------
        float
            The minimum-variance combination of row sums and counts; unbiased.
        """
        return self._size

    def noise_error(self) -> float:
        """Return the standard deviation of the noise in an estimate by the mean.

        Returns
        -------
        float
            Standard deviation in points. It does not include the error of hashing.
        """
        scales, _, collided = self._coefficients(1)
        weights, each = self._size_weights()
        collided_fraction = float(collided[0])
        own = scales / self.rows - collided_fraction * weights
        others = (self._hashes.used - 1) * (collided_fraction * weights) ** 2
        cells = float((own**2).sum() + others.sum()) + self.counts * (collided_fraction * each) ** 2
        return math.sqrt(cells * self._distribution.variance)

    def error_bound(
        self,
        confidence: float = 0.99,
        *,
        spread: float | None = None,
        combine: str = "mean",
        groups: int = GROUPS,
    ) -> float:
        """Bound the error of an estimate with a given confidence, noise included.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound is satisfied, between 0 and 1, for each query.
        spread : float or None, default=None
            The sum of sqrt(k(x, q)) over all points, or an upper bound of it; in a weighted sum of
            kernels the largest over the terms. None for the number of points, which it never
            exceeds.
        combine : {"mean", "median"}, default="mean"
            As in `estimate`.
        groups : int, default=9
            As in `estimate`.

        Returns
        -------
        float
            An upper bound of ``|estimate - true|`` for the kernel sum.

        Notes
        -----
        **Guarantee.** ``|estimate - true| <= error_bound(c)`` with probability at least c for each
        query, over seeds and noise. Independent rows: Bernstein for hashing and Chernoff for the
        noise ("mean"), or Chebyshev in each group and the binomial distribution of the median
        ("median"). Stratified rows and weighted sums: Chebyshev with the variance of one row, which
        is conservative. One sixteenth of the failure probability covers the number of points being
        underestimated.

        References
        ----------
        .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
           Applications to Machine Learning at Scale". CCS 2021, Theorem 3.4 (error of a median of
           means), with the binomial distribution. https://arxiv.org/abs/2006.09352
        """
        miss = 1 - fraction.check("ReleasedRace", "confidence", confidence)
        unsure = self._size_error / math.sqrt(SIZE_MISS * miss)  # Chebyshev
        most = max(self.size() + unsure, 0.0)
        return self._bound(
            (1 - SIZE_MISS) * miss, most, unsure, self._distribution, spread, combine, groups
        )

    @cached_property
    def _size(self) -> float:
        weights, each = self._size_weights()
        sums = [float(row[:used].sum()) for row, used in zip(self._table, self._used, strict=True)]
        return float(np.dot(weights, sums) + each * self._counts.sum())

    @property
    def _size_error(self) -> float:
        return math.sqrt(self._size_weights()[1] * self._distribution.variance)

    @property
    def _used(self) -> np.ndarray:
        return self._hashes.used

    def _size_weights(self) -> tuple[np.ndarray, float]:
        """The factor of each row's sum and of each count in the number of points.

        A row's sum has the noise of all its cells, so its factor is inversely proportional to their
        number. The variance of the total is that of one cell times the factor of a count.
        """
        each = 1 / (float((1 / self._used).sum()) + self.counts)
        return each / self._used, each

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.rows, self.width)),
            "_counts": Cells(np.int64, (self.counts,)),
        }


WIDEN = 2**31  # weights that sum to this need 64-bit cells
LIGHTEST = 1 - 2**31
ROWS_PER_COUNT = 64  # rows for each cell that only counts the points: 1.6 % more noise at most
FEW = 16  # with fewer rows a further cell would cost too much


class Race(WeighedRelease[ReleasedRace], RaceTable, Sketch):
    """RACE sketch: kernel sums over points at any query, from counts in hash buckets.

    Each row counts points by one locality-sensitive hash function. Memory is rows times width cells
    of 4 bytes (8 from 2**31 points on), whatever the number of points; `estimate` takes one lookup
    per row.

    Parameters
    ----------
    rows : int
        Number of hash functions, 1 to 2**20; the error falls with its square root.
    width : int
        Number of cells in a row, 2 to 2**31.
    kernel : Family
        A family of `sfumato.sketch.lsh` with its public bounds. Points outside are moved to the
        nearest point inside.
    seed : int, default=0
        Seed of all hash functions; part of the file format.
    strata : {"stratified", "independent"}, default="stratified"
        "stratified" spreads the hash functions evenly, each with the same distribution: errors are
        smaller, but the error bound is conservative. "independent" draws them independently.

    Attributes
    ----------
    total : int
        Sum of the weights of all points.
    clipped : int
        Number of points that were moved to the bounds.
    heaviest : int
        Largest absolute value of a weight.
    mass : int
        Sum of the absolute values of all weights, removals included.

    Notes
    -----
    **Guarantee.** Over seeds, each row's cell at q has expectation f(q), the sum of k(x, q) over
    all points x, and variance at most (sum of sqrt(k(x, q)))**2; their mean has 1 / rows of that
    variance if rows are independent. A row whose buckets all fit into the width counts nothing
    else; the buckets of other rows are hashed to all cells and (cell - N / W) / (1 - 1 / W) removes
    the expected collisions, so a small width is less accurate but never biased.

    Weights are integers; negative ones remove points. Cells do not depend on order, partition or
    machine: merging and removal are exact.

    References
    ----------
    .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, Algorithms 1 (private sketch) and 2
       (query). https://arxiv.org/abs/2006.09352
    .. [2] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004. https://doi.org/10.1145/997817.997857

    Examples
    --------
    >>> from sfumato.sketch.lsh import Euclidean
    >>> family = Euclidean(bandwidth=2.0, bounds=(0, 10), dimension=2)
    >>> race = Race(1000, 64, family).update([[1, 1], [1, 2], [9, 9]])
    >>> race.exact([[1, 1], [1, 2], [9, 9]], [[1, 1]]).round(2), race.size()
    (array([1.68]), 3.0)
    >>> bool(abs(race.estimate([[1, 1]])[0] - 1.68) < 0.1)
    True
    """

    total: int
    clipped: int
    heaviest: int
    mass: int
    _scalars = {"total": 0, "clipped": 0, "heaviest": 0, "mass": 0}

    def __init__(
        self,
        rows: int,
        width: int,
        kernel: Family,
        *,
        seed: int = 0,
        strata: str = "stratified",
    ) -> None:
        self._set_parameters(rows=rows, width=width, kernel=kernel, seed=seed, strata=strata)
        self._allocate()

    @staticmethod
    @renamed_arguments(most="max_rows")
    def suggest_rows(
        density: float, points: int, epsilon: float, delta: float = 0.0, *, max_rows: int = 4096
    ) -> int:
        """Suggest the number of rows with the least error of a release, from public guesses.

        Parameters
        ----------
        density : float
            Guess of the mean of sqrt(k(x, q)) over points x at a typical query, above 0 and below
            1.
        points : int
            Guess of the number of points, at least 1.
        epsilon : float
            Epsilon of the release, above 0.
        delta : float, default=0.0
            Delta of the release, from 0 up to but not including 1.
        max_rows : int, default=4096
            Largest number to suggest, from 1 to 2**20.

        Returns
        -------
        int
            Number of rows, from 1 to `max_rows`.

        Notes
        -----
        **Guarantee.** Let f = density * points. With delta 0, the variance of a mean of R
        independent rows is at most ``f**2 / R + 2 R / epsilon**2``; the result is its minimum,
        R = ceil(f epsilon / sqrt(2)). With a positive delta the variance of the noise of the mean
        does not grow with R; the result is the R at which hashing adds a tenth to it. Both are
        capped at `max_rows`.

        References
        ----------
        .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
           Applications to Machine Learning at Scale". CCS 2021, Corollary 3.5 (number of rows).
           https://arxiv.org/abs/2006.09352

        Examples
        --------
        >>> Race.suggest_rows(0.01, 245_057, epsilon=1)
        1733
        """
        owner = "Race.suggest_rows"
        std_bound = between(0, 1, above=True).check(owner, "density", density)
        std_bound *= integer(1).check(owner, "points", points)
        epsilon = positive.check(owner, "epsilon", epsilon)
        delta = between(0, 1).check(owner, "delta", delta)
        return best_rows(
            std_bound, epsilon, delta, integer(1, 2**20).check(owner, "max_rows", max_rows)
        )

    def update(
        self, points: Any, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Add points to the sketch.

        Each row is read on its own: coordinates beyond the bounds are clipped to them, a row that
        is not all numbers is left out, and a set that is not a list is empty. So no row is refused
        or changes how another is counted.

        Parameters
        ----------
        points : array_like
            Points of the kernel's family: rows of numbers, or sets.
        weights : array_like of shape (n,) or None, default=None
            One integer per point; None for 1 each. A negative weight removes a point.
        clip : int or None, default=None
            Public bound to which the absolute value of each weight is clipped. No weight is then
            refused, as a private release requires.

        Returns
        -------
        Self
            The object itself.
        """
        weighted = None
        if self.kernel.dimension:
            points, weighted = weighed_points("Race", points, self.kernel.dimension, weights, clip)
        read = self.kernel.read("Race", points)
        if not self.kernel.dimension:
            weighted = integer_weights("Race", weights, read.size, low=LIGHTEST, clip=clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = read.size if weighted is None else int(weighted.sum())
        mass = read.size if sizes is None else int(sizes.sum())
        # No cell exceeds the mass, so guarding the mass keeps every cell from wrapping.
        self._grow(integer(0).check("Race", "mass", self.mass + mass))
        self.heaviest = max(self.heaviest, heaviest(sizes, read.size))
        self._hashes.tally(read, weighted, self._table)
        self.total += added
        self.clipped += read.clipped
        return self

    def size(self) -> float:
        """Return the total weight of all points.

        Returns
        -------
        float
            The sum of all weights: the number of points, if each weighs 1.
        """
        return float(self.total)

    def exact(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        """Compute the sums that `estimate` approximates, pair by pair.

        Takes time proportional to the number of pairs; for tests and comparisons.

        Parameters
        ----------
        points : array_like
            Points of the kernel's family.
        queries : array_like
            Queries of the same form.
        weights : array_like or None, default=None
            One number per point; None for 1 each.

        Returns
        -------
        ndarray
            One kernel sum per query.
        """
        return self.kernel.sums(points, queries, weights)

    def error_bound(
        self,
        confidence: float = 0.99,
        *,
        spread: float | None = None,
        combine: str = "mean",
        groups: int = GROUPS,
    ) -> float:
        """Bound the error of an estimate with a given confidence.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound is satisfied, between 0 and 1, for each query.
        spread : float or None, default=None
            The sum of sqrt(k(x, q)) over all points, or an upper bound of it; in a weighted sum of
            kernels the largest over the terms. None for the number of points, which it never
            exceeds.
        combine : {"mean", "median"}, default="mean"
            As in `estimate`.
        groups : int, default=9
            As in `estimate`.

        Returns
        -------
        float
            An upper bound of ``|estimate - true|`` for the kernel sum.

        Notes
        -----
        **Guarantee.** ``|estimate - true| <= error_bound(c)`` with probability at least c for each
        query, over seeds. Independent rows: Bernstein ("mean"), or Chebyshev in each group and the
        binomial distribution of the median ("median"). Stratified rows and weighted sums: Chebyshev
        with the variance of one row, which is conservative.
        """
        miss = 1 - fraction.check("Race", "confidence", confidence)
        return self._bound(miss, self.size(), 0.0, None, spread, combine, groups)

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        moved: int | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedRace:
        """Release a differentially private copy: noise on every cell, and on counts of all points.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            Privacy parameter, above 0, or a `Privacy` in place of epsilon, delta and the options
            except `source`.
        delta : float, default=0.0
            Privacy parameter, 0 to 1.
        weight : int, default=1
            Public upper bound of the weight of one event; refused if the sketch contains a heavier
            one.
        noise : {"laplace", "gaussian"} or None, default=None
            Distribution of the noise; None for the one with the smaller variance ("laplace" if
            delta is 0).
        moved : int or None, default=None
            None if a unit is one point. Otherwise the largest number of points that one unit may
            replace, add or remove, as an edge of a graph does with two adjacency lists.
        **options : dict
            Ledger and dataset, unit, relation, contributions, release_id and source; see
            `docs/privacy.md`.

        Returns
        -------
        ReleasedRace
            Noisy counters, public parameters and a privacy statement.

        Notes
        -----
        **Guarantee.** (epsilon, delta)-differentially private for one unit under the stated
        relation. An event of weight at most w changes one cell in each of R rows, and each of c
        counts, by at most w: L1 = (R + c) w and L2 = sqrt(R + c) w. Replacing it changes two cells
        in a row: (2 R + c) w and sqrt(2 R + c) w. A removal is an event of its own, and is replaced
        by a removal only. c is 0 if the row sums estimate the number of points as well, else R / 64
        rounded up. With delta 0 the noise is discrete Laplace, otherwise the one of discrete
        Laplace and discrete Gaussian with the smaller variance.

        References
        ----------
        .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
           Applications to Machine Learning at Scale". CCS 2021, Lemma 3.1 (privacy of one row) and
           Theorem 3.2 (privacy of the sketch). https://arxiv.org/abs/2006.09352

        Examples
        --------
        >>> from sfumato.sketch.lsh import Euclidean
        >>> race = Race(100, 64, Euclidean(bandwidth=2.0, bounds=(0, 10)))
        >>> released = race.update([[1], [2], [9]]).release(epsilon=1)
        >>> released.statement.epsilon, released.statement.ledger
        (1.0, 'unaccounted')
        """
        calibrate = partial(self._calibrated_release, moved=moved)
        return self._released(calibrate, epsilon, delta, weight, noise, options)

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None, moved: int | None = None
    ) -> CalibratedRelease[ReleasedRace]:
        """Noise for the change of one point, or of the `moved` points of a unit."""
        added = self.rows + (counts := self._count_cells())
        replaced = added + self.rows
        sensitivity = Sensitivity(added, added, replaced, replaced, ones=True, weight=weight)
        if moved is not None:
            moved = integer(1, 2**20).check("Race", "moved", moved)
            sensitivity = _sensitivity_of_moves(moved, self.rows, replaced, weight)
        arrays = {"_table": self._table, "_counts": np.full(counts, self.total, np.int64)}
        parameters = {**self.parameters, "counts": counts}
        what = f"{self.rows} x {self.width} counters and {counts} counts of all points"
        return calibrated_cells(ReleasedRace, parameters, arrays, request, sensitivity, noise, what)

    def _count_cells(self) -> int:
        """Number of cells that count all points; 0 if row sums are as good. Public."""
        counts = math.ceil(self.rows / ROWS_PER_COUNT) if self.rows >= FEW else 0
        return 0 if float((1 / self._hashes.used).sum()) >= counts else counts

    def _layout(self) -> dict[str, Cells]:
        dtype = np.int32 if self.mass < WIDEN else np.int64
        return {"_table": Cells(dtype, (self.rows, self.width))}

    def _grow(self, mass: int) -> None:
        """Set the mass, widening the cells to 64 bits first if it requires that."""
        if self._table.dtype == np.int32 and mass >= WIDEN:
            self._table = self._table.astype(np.int64)
        self.mass = mass

    def _join(self, other: Self) -> None:
        mass = integer(0).check("Race", "mass", self.mass + other.mass)
        self._grow(mass)
        self.heaviest = max(self.heaviest, other.heaviest)
        self._table += other._table
        self.total += other.total
        self.clipped += other.clipped

    def _check_state(self) -> None:
        super()._check_state()
        largest = max(int(self._table.max()), -int(self._table.min()))
        if self.clipped < 0 or not abs(self.total) <= self.mass or largest > self.mass:
            raise ValueError("a cell contains more than was added.")
        check_heaviest(self.heaviest, self.mass)


def _sensitivity_of_moves(points: int, rows: int, replaced: int, weight: int) -> Sensitivity:
    """Sensitivity to a unit that replaces `points` points, all possibly in the same cells of a row.

    Events of weight 1 either leave the counts unchanged or change one cell fewer in a row.
    """
    each = replaced if weight > 1 else 2 * rows
    return Sensitivity(points * each, points**2 * each, ones=points == 1, weight=weight)

"""RACE: kernel sums over all points at any query, from counts of locality-sensitive hashes.

A released RACE sketch: private kernel sums at any query, unbiased, at no further cost.
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
from sfumato.sketch.kernel_sums.noisy_cells import NoisyCells, Reach, planned_cells
from sfumato.sketch.kernel_sums.race_table import GROUPS, RaceTable, best_rows
from sfumato.sketch.lsh.base import Family

__all__ = ["Race", "ReleasedRace"]

SIZE = 1 / 16  # of a chance to miss, for the number of points being told too low


class ReleasedRace(RaceTable, NoisyCells):
    """Kernel sums that may leave the curator; made by `Race.release`.

    those of the sketch; counts, cells that hold only the number of points; the law and scale of the
    noise.

    Notes
    -----
    **Guarantee.** As its statement says. Every estimate is unbiased over seeds and noise; noise is
    not clipped or rounded, so that sums may be below 0 or above the number of points. Queries
    outside the bounds are moved to the nearest point inside.

    References
    ----------
    .. [1] Coleman and Shrivastava 2020, algorithms 1 and 2, without their rounding down.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Race
    >>> from sfumato.sketch.lsh import Euclidean
    >>> family = Euclidean(bandwidth=1.0, bounds=(0, 10), dimension=2)
    >>> told = Race(64, 256, family).update([[5, 5]] * 9000).release(
    ...     epsilon=1, source=InsecureSeededSource(1)
    ... )
    >>> bool(abs(told.estimate([[5, 5]])[0] - 9000) < 5 * told.noise_error())
    True
    """

    counts: Annotated[int, integer(0, 2**20)]
    _counts: np.ndarray
    _of = "Race"

    def size(self) -> float:
        """How many points there are, by weight: the least noisy mean of row sums and counts.

        Returns
        -------
        float
            How many points there are, by weight: the least noisy mean of row sums and counts.
        """
        return self._size

    def noise_error(self) -> float:
        """The standard deviation of the noise in an estimate by the mean; no hash's error.

        Returns
        -------
        float
            The standard deviation of the noise in an estimate by the mean; no hash's error.
        """
        scales, _, collided = self._coefficients(1)
        shares, each = self._size_shares()
        share = float(collided[0])
        own = scales / self.rows - share * shares
        others = (self._hashes.used - 1) * (share * shares) ** 2
        cells = float((own**2).sum() + others.sum()) + self.counts * (share * each) ** 2
        return math.sqrt(cells * self._distribution.variance)

    def error_bound(
        self,
        confidence: float = 0.99,
        *,
        spread: float | None = None,
        combine: str = "mean",
        groups: int = GROUPS,
    ) -> float:
        """What an estimate may be off by, with this probability for each query, noise included.

        confidence between 0 and 1;

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        spread : float or None, default=None
            The sum of sqrt(k(x, q)) over all points (the largest, in a weighted sum of kernels), or
            a bound of it; unless known, the number of points, which no spread exceeds.
        combine : str, default="mean"
            As in `estimate`. Stratified rows and weighted sums are better than their bound, by
            Chebyshev from one row alone, tells.
        groups : int, default=9
            As in `estimate`. Stratified rows and weighted sums are better than their bound, by
            Chebyshev from one row alone, tells.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each query, noise included.

        References
        ----------
        .. [1] Coleman and Shrivastava 2020, theorem 3.4, with the binomial law ("median");
           Bernstein and Chernoff ("mean").
        """
        miss = 1 - fraction.check("ReleasedRace", "confidence", confidence)
        unsure = self._size_error / math.sqrt(SIZE * miss)  # Chebyshev
        most = max(self.size() + unsure, 0.0)
        return self._bound(
            (1 - SIZE) * miss, most, unsure, self._distribution, spread, combine, groups
        )

    @cached_property
    def _size(self) -> float:
        shares, each = self._size_shares()
        sums = [float(row[:used].sum()) for row, used in zip(self._table, self._used, strict=True)]
        return float(np.dot(shares, sums) + each * self._counts.sum())

    @property
    def _size_error(self) -> float:
        return math.sqrt(self._size_shares()[1] * self._distribution.variance)

    @property
    def _used(self) -> np.ndarray:
        return self._hashes.used

    def _size_shares(self) -> tuple[np.ndarray, float]:
        """The factor of each row's sum and of each count in the number of points.

        A row's sum has the noise of all its cells, so that it counts for one cell's share of it;
        with these factors the variance is that of one cell times the last.
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
A_COUNT = 64  # rows for each cell that only counts the points: 1.6 % more noise at most
FEW = 16  # below so many rows a further cell would cost too much


class Race(WeighedRelease[ReleasedRace], RaceTable, Sketch):
    """Counts of points in random buckets: a query's kernel sum is its mean count.

    Parameters
    ----------
    rows : int
        Hash functions, up to 2**20.
    width : int
        Cells of a row, from 2.
    kernel : Family
        A family of `sfumato.sketch.lsh` with its public bounds: points outside are moved to the
        nearest point inside, and `clipped` tells how many.
    seed : int, default=0
        Of all hashes.
    strata : str, default="stratified"
        "stratified" rows (each of the same law, spread evenly: smaller errors, no proved bound) or
        "independent" ones. Weights are integers; negative ones remove what was added, never more
        than all of it.

    Notes
    -----
    **Guarantee.** Over seeds, each row's cell at q counts f(q) = sum of k(x, q) over all points x,
    on average, with variance at most (sum of sqrt(k(x, q)))**2; so does their mean, with 1 / rows
    of that where rows are independent. A row whose buckets all fit into the width holds nothing
    else; the others are hashed to all cells, and (cell - N / W) / (1 - 1 / W) takes off what
    collides: no width is too small, a smaller one is only less exact. Cells are the same for any
    order, split or machine, so that merging is exact, and so is removal.

    References
    ----------
    .. [1] Coleman and Shrivastava 2020; Datar, Immorlica, Indyk and Mirrokni 2004.

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
        """The rows that make the error of a release least, from public guesses alone.

        Parameters
        ----------
        density : float
            From 0 to 1, a guess of the mean of sqrt(k(x, q)) over points x at a usual query.
        points : int
            A guess of how many there are; f~ is their product.
        epsilon : float
            Of the release.
        delta : float, default=0.0
            Of the release.
        max_rows : int, default=4096
            The largest answer.

        Returns
        -------
        int
            The rows that make the error of a release least, from public guesses alone.

        Notes
        -----
        **Guarantee.** At delta 0, the R with the least f~**2 / R + 2 R / epsilon**2, the variance
        of a mean of independent rows, which is ceil(f~ epsilon / sqrt(2)). With a delta the noise
        of the mean does not grow with R: then so many that hashing adds a tenth to it.

        References
        ----------
        .. [1] Coleman and Shrivastava 2020, corollary 3.5.

        Examples
        --------
        >>> Race.suggest_rows(0.01, 245_057, epsilon=1)
        1733
        """
        owner = "Race.suggest_rows"
        spread = between(0, 1, above=True).check(owner, "density", density)
        spread *= integer(1).check(owner, "points", points)
        epsilon = positive.check(owner, "epsilon", epsilon)
        delta = between(0, 1).check(owner, "delta", delta)
        return best_rows(
            spread, epsilon, delta, integer(1, 2**20).check(owner, "max_rows", max_rows)
        )

    def update(
        self, points: Any, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Count every point, by its whole weight or by one.

        Rows are read one by one: what is beyond the bounds is clipped to them, a row that is not
        all numbers is left out, and a set that is no list is empty, so that no row is refused or
        changes another.

        Parameters
        ----------
        points : object
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
        """How many points there are, by weight.

        Returns
        -------
        float
            How many points there are, by weight.
        """
        return float(self.total)

    def exact(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        """The true kernel sums of these points at every query, pair by pair: for tests, slow.

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.
        weights : array_like or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The true kernel sums of these points at every query, pair by pair: for tests, slow.
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
        """What an estimate may be off by, with this probability for each query.

        confidence between 0 and 1;

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        spread : float or None, default=None
            The sum of sqrt(k(x, q)) over all points (the largest, in a weighted sum of kernels), or
            a bound of it; unless known, the number of points, which no spread exceeds.
        combine : str, default="mean"
            As in `estimate`. Stratified rows and weighted sums are better than their bound, by
            Chebyshev from one row alone, tells.
        groups : int, default=9
            As in `estimate`. Stratified rows and weighted sums are better than their bound, by
            Chebyshev from one row alone, tells.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each query.
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
        """A private copy with noise on every cell, and on a few that count the points.

        epsilon above 0; delta from 0 to 1;

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            TODO.
        delta : float, default=0.0
            TODO.
        weight : int, default=1
            The most that one event weighs, public, refused where the sketch holds a heavier one.
        noise : str or None, default=None
            "laplace" or "gaussian", whichever is smaller unless told.
        moved : int or None, default=None
            Where a unit is no point itself but may exchange, add or remove so many, as an edge of a
            graph does with two adjacency lists: None where a unit is a point.
        **options : dict
            Ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        Returns
        -------
        ReleasedRace
            A private copy with noise on every cell, and on a few that count the points.

        Notes
        -----
        **Guarantee.** (epsilon, delta)-private for one unit: an event of weight at most w changes
        one cell in each row, and each of c counts, by at most w: L1 = (R + c) w, L2 = sqrt(R + c)
        w. One exchanged for another changes two cells in a row: (2 R + c) w and sqrt(2 R + c) w. A
        removal is an event of its own, and is exchanged for a removal only. c is 0 where the sums
        of the rows tell the number of points as well, else R / 64. At delta 0 the noise is discrete
        Laplace, else whichever of that and discrete Gaussian has the smaller variance.

        References
        ----------
        .. [1] Coleman and Shrivastava 2020, lemma 3.1 and theorem 3.2.

        Examples
        --------
        >>> from sfumato.sketch.lsh import Euclidean
        >>> race = Race(100, 64, Euclidean(bandwidth=2.0, bounds=(0, 10)))
        >>> told = race.update([[1], [2], [9]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')
        """
        plan = partial(self._calibrated_release, moved=moved)
        return self._released(plan, epsilon, delta, weight, noise, options)

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None, moved: int | None = None
    ) -> CalibratedRelease[ReleasedRace]:
        """Noise for what a point changes, or so many points that one unit moves."""
        touched = self.rows + (counts := self._count_cells())
        both = touched + self.rows
        reach = Reach(touched, touched, both, both, ones=True, weight=weight)
        if moved is not None:
            reach = _moved(integer(1, 2**20).check("Race", "moved", moved), self.rows, both, weight)
        arrays = {"_table": self._table, "_counts": np.full(counts, self.total, np.int64)}
        parameters = {**self.parameters, "counts": counts}
        what = f"{self.rows} x {self.width} counters and {counts} counts of all points"
        return planned_cells(ReleasedRace, parameters, arrays, request, reach, noise, what)

    def _count_cells(self) -> int:
        """How many cells count the points: none where row sums are as good, from public numbers."""
        counts = math.ceil(self.rows / A_COUNT) if self.rows >= FEW else 0
        return 0 if float((1 / self._hashes.used).sum()) >= counts else counts

    def _layout(self) -> dict[str, Cells]:
        dtype = np.int32 if self.mass < WIDEN else np.int64
        return {"_table": Cells(dtype, (self.rows, self.width))}

    def _grow(self, mass: int) -> None:
        """Set the mass, widening the cells first where it needs that."""
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
            raise ValueError("a cell holds more than was added.")
        check_heaviest(self.heaviest, self.mass)


def _moved(points: int, rows: int, both: int, weight: int) -> Reach:
    """What a unit changes that exchanges so many points: all of them may share two cells of a row.

    Weights of 1 leave the counts as they are, or else change one cell in a row less.
    """
    each = both if weight > 1 else 2 * rows
    return Reach(points * each, points**2 * each, ones=points == 1, weight=weight)

"""BFRSummary: discard, compression and retained set of a stream of rows, as a mergeable sketch."""

from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import rows as matrix_rows
from sfumato.core.validation import fraction, integer
from sfumato.kernels.mine.cluster import nearest_centres as kernels
from sfumato.mine.cluster.bfr.bfr_summaries import Summaries, scales_of
from sfumato.sketch.base import Cells, Merging, Sketch, rounding

__all__ = ["BFRSummary", "nearest_clusters"]

CHUNK = 1 << 16  # rows that are assigned at a time
PER_START = 100  # rows per cluster from which the clusters start
LARGEST = 1e140  # sums of squares of so large numbers stay finite


class BFRSummary(Sketch):
    """Clusters of a stream in memory that does not grow with it, by Bradley, Fayyad and Reina.

    Parameters
    ----------
    n_clusters : int
        Number of main clusters k, from 1.
    dimension : int
        Number of columns, from 1.
    confidence : float, default=0.999
        A row joins a main cluster if its squared Mahalanobis distance is at most the quantile of a
        chi-square distribution of `dimension` degrees, between 0 and 1.
    max_compressed : int, default=200
        Largest number of mini-clusters, from 2.
    max_retained : int, default=4096
        Number of single rows from which they are clustered, from 2.
    seed : int, default=0
        Seed of the first clusters.

    Attributes
    ----------
    total : int
        Number of rows.

    Notes
    -----
    **Guarantee.** N, SUM and SUMSQ of all rows together (`totals`) are those of the rows, N exactly
    and sums up to rounding, whatever was merged. Memory is at most that of ``n_clusters +
    max_compressed`` summaries of 2 d + 1 numbers, `max_retained` rows and the rows of one update.

    Rows wait until there are 100 for each cluster; k-means of them starts the main clusters. From
    then on a row near a main cluster is added to its sums and forgotten (discard set); all others
    are retained. When there are more than `max_retained`, k-means groups them, and groups whose
    standard deviation is in no column above the mean one of the main clusters become mini-clusters
    (compression set), which merge while their combined deviation is not above it either. Columns
    that never vary are ignored in distances.

    A merge joins main clusters of both sides by Ward's criterion to k again. Which cluster a row
    near a border is counted in depends on the order of rows and merges, as in every BFR: merging is
    by rounding for `totals`, and approximate for single clusters.

    References
    ----------
    .. [1] Bradley, Fayyad, Reina. "Scaling clustering algorithms to large databases". KDD 1998.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(1, 1, (500, 2)), rng.normal(9, 1, (500, 2))])
    >>> summary = BFRSummary(2, 2).update(rows)
    >>> summary.total, sorted(summary.clusters()[0].round().tolist())
    (1000, [[1.0, 1.0], [9.0, 9.0]])
    """

    n_clusters: Annotated[int, integer(1, 2**16)]
    dimension: Annotated[int, integer(1, 2**16)]
    confidence: Annotated[float, fraction]
    max_compressed: Annotated[int, integer(2, 2**12)]
    max_retained: Annotated[int, integer(2, 2**24)]
    seed: Annotated[int, integer(0, 2**64 - 1)]
    total: int
    _counts: np.ndarray
    _sums: np.ndarray
    _squares: np.ndarray
    _retained: np.ndarray
    _origin: np.ndarray
    _scalars = {"total": 0}
    _no_release = "its sums and rows have no bound; PrivateBFR releases clusters."

    def __init__(
        self,
        n_clusters: int,
        dimension: int,
        *,
        confidence: float = 0.999,
        max_compressed: int = 200,
        max_retained: int = 4096,
        seed: int = 0,
    ) -> None:
        self._set_parameters(
            n_clusters=n_clusters,
            dimension=dimension,
            confidence=confidence,
            max_compressed=max_compressed,
            max_retained=max_retained,
            seed=seed,
        )
        self._allocate()

    @property
    def merging(self) -> Merging:
        return rounding(
            "sums are float64, and a row near a border may be counted in another cluster."
        )

    @property
    def main(self) -> Summaries:
        """The discard set: main clusters about the origin; none before the start."""
        return Summaries(self._counts, self._sums, self._squares).take(self._is_main())

    @property
    def compressed(self) -> Summaries:
        """The compression set: mini-clusters about the origin."""
        return Summaries(self._counts, self._sums, self._squares).take(~self._is_main())

    @property
    def retained(self) -> np.ndarray:
        """The retained set: single rows."""
        return self._retained

    @property
    def threshold(self) -> float:
        """Largest squared Mahalanobis distance of a row that joins a main cluster."""
        from scipy.special import chdtri  # of the chi-square distribution

        return float(chdtri(self.dimension, 1 - self.confidence))

    def update(self, rows: Any) -> Self:
        """Add rows.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Finite numbers up to 1e140: array, Arrow batch or table, frame, or list of rows.

        Returns
        -------
        Self
            The object itself.
        """
        points = matrix_rows("BFRSummary", rows, self.dimension)
        if points.size and max(points.max(), -points.min()) > LARGEST:
            raise ValueError(f"BFRSummary: numbers must be at most {LARGEST:g} in size.")
        state = _State.of(self)
        for start in range(0, len(points), CHUNK):
            state.add(points[start : start + CHUNK])
        self._take(state, self.total + len(points))
        return self

    def totals(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Return N, SUM and SUMSQ of all rows.

        Returns
        -------
        tuple of (int, ndarray, ndarray)
            Number of rows, and of each column the sum and the sum of squares.
        """
        whole = Summaries(self._counts, self._sums, self._squares).total().moved(self._origin)
        sums = whole.sums[0] + self._retained.sum(axis=0)
        return self.total, sums, whole.squares[0] + np.square(self._retained).sum(axis=0)

    def clusters(self, *, finish: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the clusters: centres, variances of their columns, and numbers of rows.

        Parameters
        ----------
        finish : bool, default=True
            Whether mini-clusters and single rows are counted too: Ward's criterion joins main and
            mini-clusters to `n_clusters`, and a single row goes to the nearest of them. False
            gives the main clusters alone.

        Returns
        -------
        tuple of ndarray
            Shapes (k, d), (k, d) and (k,), with k = `n_clusters`.

        Raises
        ------
        ValueError
            There are fewer rows than clusters.
        """
        state = _State.of(self)
        state.start(least=self.n_clusters)
        if not len(state.main):
            raise ValueError(
                f"BFRSummary: n_clusters must be at most the number of rows, "
                f"n_samples={self.total}, not {self.n_clusters}."
            )
        found = state.finished() if finish else state.main
        return found.means + state.origin, found.variances, found.counts

    def _is_main(self) -> np.ndarray:
        return np.arange(len(self._counts)) < self.n_clusters

    def _layout(self) -> dict[str, Cells]:
        table = -1, self.dimension
        return {
            "_counts": Cells(np.int64, (-1,), ""),
            "_sums": Cells(np.float64, table, ""),
            "_squares": Cells(np.float64, table, ""),
            "_retained": Cells(np.float64, table, ""),
            "_origin": Cells(np.float64, (self.dimension,), ""),
        }

    def _join(self, other: Self) -> None:
        mine, yours = _State.of(self), _State.of(other)
        mine.join(yours)
        self._take(mine, self.total + other.total)

    def _take(self, state: "_State", total: int) -> None:
        """Set the arrays of another state at once."""
        both = state.main.with_more(state.compressed)
        names = ("_counts", "_sums", "_squares")
        arrays = dict(zip(names, both.parts(), strict=True))
        vars(self).update(arrays, _retained=state.retained, _origin=state.origin, total=total)

    def _check_state(self) -> None:
        super()._check_state()
        size = len(self._counts)
        if len(self._sums) != size or len(self._squares) != size or 0 < size < self.n_clusters:
            raise ValueError("the clusters are damaged.")
        if size > self.n_clusters + self.max_compressed or (self._counts < 0).any():
            raise ValueError("the clusters do not fit.")
        tables = self._sums, self._squares, self._retained, self._origin
        if not all(np.isfinite(each).all() for each in tables):
            raise ValueError("a sum is not finite.")
        if int(self._counts.sum()) + len(self._retained) != self.total:
            raise ValueError("the total does not fit.")


class _State:
    """The three sets while they change."""

    main: Summaries
    compressed: Summaries
    retained: np.ndarray
    origin: np.ndarray

    def __init__(self, summary: BFRSummary) -> None:
        self.settings, self.size = summary, summary.n_clusters
        self.threshold = summary.threshold

    @classmethod
    def of(cls, summary: BFRSummary) -> "_State":
        """A copy of the sets of a summary."""
        state = cls(summary)
        state.main, state.compressed = summary.main, summary.compressed
        state.retained, state.origin = summary._retained, summary._origin
        return state

    def add(self, rows: np.ndarray) -> None:
        """Add rows: to the main clusters if near, else to those retained."""
        if not len(self.main):
            self.retained = np.concatenate([self.retained, rows])
            self.start(least=PER_START * self.size)
        else:
            self.retained = np.concatenate([self.retained, self._discard(rows)])
        if len(self.main) and len(self.retained) > self.settings.max_retained:
            self._compress()

    def start(self, least: int) -> None:
        """Make the main clusters from the retained rows, if there are so many."""
        if len(self.main) or len(self.retained) < least:
            return
        rows = self.retained
        self.origin = rows.mean(axis=0)
        spread = scales_of(rows.var(axis=0), rows.var(axis=0))
        labels = _kmeans((rows - self.origin) * spread, self.size, self.settings.seed)
        self.main = Summaries.of_rows(rows, labels, self.size, self.origin)
        self.retained = rows[:0].copy()

    def join(self, other: "_State") -> None:
        """Add the sets of another state."""
        if not len(other.main):
            self.add(other.retained)
            return
        if not len(self.main):
            rows = self.retained
            vars(self).update(vars(other), settings=self.settings)
            self.add(rows)
            return
        shift = other.origin - self.origin
        main = self.main.with_more(other.main.moved(shift))
        self.main = main.grouped(main.ward(self.size, self._spread()), self.size)
        self.compressed = self.compressed.with_more(other.compressed.moved(shift))
        self.compressed = self.compressed.merged_close(
            self._mean_variance(), self.settings.max_compressed
        )
        self.add(other.retained)

    def finished(self) -> Summaries:
        """All rows in `size` clusters."""
        both = self.main.with_more(self.compressed)
        found = both.grouped(both.ward(self.size, self._spread()), self.size)
        if len(self.retained):
            labels = self._nearest(found, self.retained)[0]
            found.add(Summaries.of_rows(self.retained, labels, self.size, self.origin))
        return found

    def _spread(self) -> np.ndarray:
        overall = self.main.with_more(self.compressed).total().variances[0]
        return scales_of(overall, overall)

    def _mean_variance(self) -> np.ndarray:
        """Mean variance of each column within the main clusters, by rows; above 0."""
        whole = self.main.total()
        mean = (self.main.counts[:, np.newaxis] * self.main.variances).sum(axis=0)
        mean = mean / max(int(whole.counts[0]), 1)
        return np.asarray(np.maximum(mean, np.finfo(np.float64).tiny + 1e-12 * whole.variances[0]))

    def _nearest(self, found: Summaries, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest of some clusters by Mahalanobis distance, and its square."""
        overall = found.total().variances[0]
        return nearest_clusters(rows, found.means + self.origin, found.variances, overall)

    def _discard(self, rows: np.ndarray) -> np.ndarray:
        """Add rows to main clusters near them; return the others."""
        labels, squared = self._nearest(self.main, rows)
        labels[squared > self.threshold] = -1
        self.main.add(Summaries.of_rows(rows, labels, self.size, self.origin))
        return rows[labels < 0]

    def _compress(self) -> None:
        """Group the retained rows; all of them if single ones would still be too many."""
        rows = self._discard(self.retained)
        most = self._mean_variance()
        size = max(min(self.settings.max_compressed, len(rows) // 4), 1)
        if len(rows) > size:
            labels = _kmeans((rows - self.origin) * self._spread(), size, self.settings.seed)
            groups = Summaries.of_rows(rows, labels, size, self.origin)
            tight = (groups.counts > 1) & (groups.variances <= most).all(axis=1)
            single = ~tight[labels]
            if single.sum() > self.settings.max_retained // 2:
                tight, single = groups.counts > 0, np.zeros(len(rows), bool)
            self.compressed = self.compressed.with_more(groups.take(tight))
            rows = rows[single]
        self.retained = rows
        limit = self.settings.max_compressed
        self.compressed = self.compressed.merged_close(most, limit)


def nearest_clusters(
    rows: np.ndarray, centres: np.ndarray, variances: np.ndarray, overall: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cluster of the smallest Mahalanobis distance of each row, and its square."""
    labels, squared = np.empty(len(rows), np.int32), np.empty(len(rows))
    scales = scales_of(variances, overall)
    kernels.nearest_scaled(rows, np.ascontiguousarray(centres), scales, labels, squared)
    return labels, squared


def _kmeans(rows: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Labels of k-means on rows in memory."""
    from sfumato.mine.cluster.kmeans.lloyd import Lloyd
    from sfumato.mine.cluster.kmeans.starts import Start, sample_size

    rng = np.random.default_rng(seed)
    rows = np.ascontiguousarray(rows)
    size = min(size, len(rows))
    start = Start(size, "k-means++", 2, sample_size(len(rows), size), 1e-4, rng)
    lloyd = Lloyd(rows, None, start.centres(rows, None))
    lloyd.run(100, 1e-4)
    return lloyd.labels

"""Histograms of columns and of sums of two columns, and anomaly scores from them.

`SliceTable` counts points and merges bit for bit; `Surprise` scores points against the histograms;
`ReleasedSliceTable` holds noisy histograms and a noisy histogram of the scores that they give.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import integer_weights
from sfumato.core.bounds import BOUNDS, Box, Pair, points
from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import integer, one_of, positive
from sfumato.density.histogram_shrinkage import shrunk_to_bells
from sfumato.density.sequential_release import Step, StepNoise, cheapest
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.base import SEED, Sketch

__all__ = [
    "SCORE_CELLS",
    "ReleasedSliceTable",
    "SliceTable",
    "Slices",
    "Surprise",
    "blocks_of",
    "described_slices",
    "planned_slices",
]

BITS = 20  # bits of a coordinate within the bounds
FACTORS = 7  # largest absolute factor of a column in a sum
BLOCK = 2**15  # rows at a time, fewer where there are many slices
CODES = 2**22  # cells of rows at a time: 32 MiB
MOST_CELLS = 2**27  # cells of all histograms: 1 GiB


class Slices(Stored, in_files=False):
    """One-dimensional projections of points: every column, then seeded sums of two columns.

    bounds: public limits of every column; projections: number of sums (none if there is one
    column); bins: equal cells of each histogram; seed: of the columns and factors of the sums.
    """

    bounds: Annotated[Pair, BOUNDS]
    projections: Annotated[int, integer(0, 2**16)]
    bins: Annotated[int, integer(2, 2**12)]
    seed: Annotated[int, SEED]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        columns = len(self.bounds[0])
        slices = columns + self.projections
        if slices * max(self.bins, columns) > MOST_CELLS:
            raise ValueError(
                f"{type(self).__name__}: bins is {self.bins!r} and projections "
                f"{self.projections!r}, which over {columns} columns takes more than 2**27 cells; "
                "lower one of them."
            )

    @cached_property
    def factors(self) -> np.ndarray:
        """Matrix of slices by columns: small integers, so that every sum of steps is exact."""
        columns = len(self.bounds[0])
        sums = np.zeros((self.projections if columns > 1 else 0, columns), np.int64)
        words = hash_column(np.arange(4 * len(sums)), self.seed).reshape(-1, 4)
        one = words[:, 0] % np.uint64(columns)
        other = (one + np.uint64(1) + words[:, 1] % np.uint64(max(columns - 1, 1))) % np.uint64(
            columns
        )
        rows = np.arange(len(sums))
        sums[rows, one.astype(np.int64)] = _factor(words[:, 2])
        sums[rows, other.astype(np.int64)] = _factor(words[:, 3])
        return np.vstack([np.eye(columns, dtype=np.int64), sums])

    @property
    def slices(self) -> int:
        """Number of histograms, and so of the cells that one point counts in."""
        return len(self.factors)

    @cached_property
    def box(self) -> Box:
        return Box(*self.bounds)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the slices in a mean: half for all columns, half for all sums."""
        columns = len(self.bounds[0])
        sums = self.slices - columns
        parts = [np.full(columns, 1 / columns)] + ([np.full(sums, 1 / sums)] if sums else [])
        return np.asarray(np.concatenate(parts) / len(parts))

    def codes(self, inside: np.ndarray) -> np.ndarray:
        """The cell of each clipped point in the histogram of each slice."""
        steps = self.box.steps(inside, BITS)
        sums = (steps @ self.factors.T.astype(np.float64)).astype(np.int64)
        least = np.minimum(self.factors, 0).sum(axis=1) * (2**BITS - 1)
        span = np.abs(self.factors).sum(axis=1) * (2**BITS - 1) + 1
        return np.asarray((sums - least) * self.bins // span)

    def counted(self, inside: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Total weight of the clipped points by slice and cell."""
        total = np.zeros(self.slices * self.bins, np.int64)
        starts = np.arange(self.slices) * self.bins
        for block in blocks_of(len(inside), self.slices):
            cells = (self.codes(inside[block]) + starts).reshape(-1)
            # Integer weights below 2**31, 2**15 at a time: floats add them exactly.
            each = None if weights is None else np.repeat(weights[block], self.slices)
            total += np.bincount(cells, each, total.size).astype(np.int64)
        return total.reshape(self.slices, self.bins)


def blocks_of(rows: int, slices: int) -> Iterator[slice]:
    """Slices of rows, in blocks whose cells take little memory."""
    step = max(1, min(BLOCK, CODES // slices))
    return (slice(start, start + step) for start in range(0, rows, step))


def _factor(words: np.ndarray) -> np.ndarray:
    """Non-zero factors up to FACTORS in absolute value, from hash words."""
    size = (words >> np.uint64(8)) % np.uint64(FACTORS) + np.uint64(1)
    return np.where(words & np.uint64(1), size.astype(np.int64), -size.astype(np.int64))


class SliceTable(Slices, Sketch):
    """Counts of points in each cell of each slice.

    Coordinates are integer steps of the bounds and factors are integers, so that cells are the same
    for any order, split or machine, and merging is exact. Weights are integers from 0 up.
    """

    total: int
    clipped: int
    _table: np.ndarray
    _scalars = {"total": 0, "clipped": 0}

    def __init__(
        self, bounds: Any, *, projections: int = 32, bins: int = 64, seed: int = 0
    ) -> None:
        self._set_parameters(bounds=bounds, projections=projections, bins=bins, seed=seed)
        self._allocate()

    def _layout(self) -> dict[str, Cells]:
        return {"_table": Cells(np.int64, (self.slices, self.bins))}

    def update(self, data: Any, weights: Any = None) -> Self:
        """Count every point by its weight, or by one."""
        given = points("SliceTable", data, len(self.bounds[0]))
        weighted = integer_weights("SliceTable", weights, len(given))
        added = len(given) if weighted is None else int(weighted.sum())
        total = integer(0).check("SliceTable", "total", self.total + added)
        inside, outside = self.box.clip(given)
        self._table += self.counted(inside, weighted)
        self.total = total
        self.clipped += outside
        return self


FEWEST = 0.5  # smallest count of a cell
SCORE_CELLS = 32  # cells of a histogram of scores, from 0 to the largest possible


@dataclass(frozen=True)
class Surprise:
    """Root mean square over slices of the surprise in excess of the entropy of the slice, in nats.

    Surprise is the negative log of the fraction of points in a cell. An excess x counts as
    log(1 + exp(x)): x where it is large, and towards 0 where it is negative, so that usual points
    have an order too. table: counts of slices by cells with noise of this variance, shrunk towards
    bells accordingly.
    """

    slices: Slices
    table: np.ndarray
    variance: float

    @cached_property
    def size(self) -> float:
        """Estimated number of points, the mean of the sums of the slices, at least one."""
        return max(float(self.table.sum(axis=1).mean()), 1.0)

    @cached_property
    def _fractions(self) -> np.ndarray:
        """Estimated fraction of points in each cell."""
        counts = self.table.astype(np.float64)
        if self.variance:
            counts = shrunk_to_bells(counts, self.variance, self.size)
        return np.asarray(np.maximum(counts, FEWEST) / self.size)

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared surprise of each cell in excess of its slice's entropy, softly cut at 0."""
        surprise = -np.log(self._fractions)
        probabilities = self._fractions / self._fractions.sum(axis=1, keepdims=True)
        entropy = (probabilities * surprise).sum(axis=1, keepdims=True)
        return np.asarray(np.logaddexp(0.0, surprise - entropy) ** 2)

    def largest_mean(self, fraction: float) -> float:
        """The mean of the largest squares, this fraction of all over points and slices.

        At most this fraction of the counted points has a squared score m or more, if m is that
        mean: for any c, a mean of squares over slices is at most c plus the mean of what exceeds c,
        so that by Markov's inequality the fraction is at most that mean over m - c; the smallest
        such m is this (Rockafellar and Uryasev 2000). The histograms determine it without the joint
        distribution of slices, since a mean is linear.
        """
        squares = self.squares.ravel()
        parts = (self.table * self.slices.weights[:, None] / self.size).ravel()
        order = np.argsort(squares)[::-1]
        before = np.minimum(np.cumsum(parts[order]) - parts[order], fraction)
        used = np.minimum(parts[order], fraction - before)
        return float(squares[order] @ used / fraction)

    @cached_property
    def most(self) -> float:
        """An upper bound of all scores, from the table alone."""
        return max(float(np.sqrt(self.squares.max(axis=1) @ self.slices.weights)), 1e-6)

    def counted(self, scores: np.ndarray) -> np.ndarray:
        """Number of scores in each of the equal cells from 0 to `most`."""
        cells = np.minimum(scores / self.most * SCORE_CELLS, SCORE_CELLS - 1).astype(np.int64)
        return np.bincount(cells, minlength=SCORE_CELLS).astype(np.int64)

    def quantile(self, cells: np.ndarray, fraction: float) -> float:
        """The score exceeded by this fraction of the points, by noisy cells of scores.

        Counts from the low end, where a few cells hold most points: at the high end many cells hold
        noise alone.
        """
        below = np.cumsum(cells) / self.size
        reached = below >= 1 - fraction
        position = int(reached.argmax()) if reached.any() else SCORE_CELLS - 1
        before = below[position - 1] if position else 0.0
        part = np.clip((1 - fraction - before) / max(below[position] - before, 1e-12), 0, 1)
        return float((position + part) * self.most / SCORE_CELLS)

    def scores(self, inside: np.ndarray) -> np.ndarray:
        """Surprise of clipped points, from 0 up."""
        out = np.empty(len(inside))
        for block in blocks_of(len(inside), self.slices.slices):
            codes = self.slices.codes(inside[block])
            # One slice after another: a matrix product rounds a row by its position among the
            # others, so that one person's row could move another's score into the next cell.
            total = np.zeros(len(codes))
            for squares, weight, cells in zip(
                self.squares, self.slices.weights, codes.T, strict=True
            ):
                total += weight * squares[cells]
            out[block] = np.sqrt(total)
        return out


BUDGET = Fraction(9, 10), Fraction(1, 10)  # fractions of epsilon: slices, scores


class ReleasedSliceTable(Release, Slices):
    """Histograms of slices with noise, safe to publish; made by `SketchAnomalyDetector`.

    The guarantee is that of its statement. A point is in one cell of each slice and in one cell of
    the scores. The scores are those that the noisy slices give, so the costs of the two steps add
    up. Parameters: those of the slices; noise, and its scale in slices and scores, sigma if
    Gaussian.
    """

    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]
    score_scale: Annotated[float, positive]
    _table: np.ndarray
    _scores: np.ndarray
    version = 2  # scores are of excesses cut softly
    _of = "SketchAnomalyDetector"

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.slices, self.bins)),
            "_scores": Cells(np.int64, (SCORE_CELLS,)),
        }

    def size(self) -> float:
        """Estimated number of points."""
        return self.surprise.size

    @cached_property
    def surprise(self) -> Surprise:
        """Scores of points against the noisy histograms."""
        return Surprise(self, self._table, NoiseDistribution(self.noise, self.scale).variance)

    def threshold(self, fraction: float) -> float:
        """The score exceeded by about this fraction of the points, by the noisy scores."""
        return self.surprise.quantile(self._scores, fraction)


def planned_slices(
    table: SliceTable,
    inside: np.ndarray | Callable[[Surprise], np.ndarray],
    request: ReleaseRequest,
) -> CalibratedRelease[ReleasedSliceTable]:
    """The calibrated release of a table and of the scores of the clipped points it counted.

    inside: the points, or where they are not in memory the function that counts their scores.
    """
    first, second = Step(BUDGET[0], table.slices, table.slices), Step(BUDGET[1], 1, 1)
    step_noise, loss = cheapest(request, [first, second])
    request.check_room(8 * (table._table.size + SCORE_CELLS))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return _filled(table, inside, replace(step_noise, source=source))

    scales = tuple(map(float, step_noise.scales))
    symbol = "scale" if step_noise.distribution == "Laplace" else "sigma"
    mechanism = (
        f"discrete {step_noise.distribution} noise in two steps, {symbol} {scales[0]:.6g} on each "
        f"of {table.slices} x {table.bins} counters of slices, {scales[1]:.6g} on each of "
        f"{SCORE_CELLS} counters of scores; an event weighs at most 1"
    )
    noise_parameters = dict(noise=step_noise.distribution, scale=scales[0], score_scale=scales[1])
    return CalibratedRelease(
        ReleasedSliceTable, {**table.parameters, **noise_parameters}, loss, mechanism, noisy
    )


def _filled(
    table: SliceTable,
    inside: np.ndarray | Callable[[Surprise], np.ndarray],
    step_noise: StepNoise,
) -> dict[str, np.ndarray]:
    """The table with noise, and the noisy histogram of scores that it gives."""
    slices = step_noise.added(0, table._table.copy())
    surprise = Surprise(table, slices, step_noise.variance(0))
    scores = inside(surprise) if callable(inside) else surprise.counted(surprise.scores(inside))
    return {"_table": slices, "_scores": step_noise.added(1, scores)}


def described_slices(stored: Slices) -> dict[str, Any]:
    """The parameters of an estimator over these slices."""
    return dict(
        bounds=stored.bounds,
        projections=stored.projections,
        bins=stored.bins,
        random_state=stored.seed,
    )

"""Histograms of columns and of sums of two columns: a table that merges bit for bit.

How strange points are to histograms of slices: surprise beyond what is usual in each. Histograms
of slices with noise, then of the scores that the noisy ones give. Smoothing of noisy histograms, as
strong as their known noise asks: it costs no privacy.
"""

from collections.abc import Iterator
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
    "smoothed",
]

BITS = 20  # of a coordinate within the bounds
FACTORS = 7  # a column counts from once to so many times in a sum
BLOCK = 2**15  # rows at a time, fewer where there are many slices
CODES = 2**22  # cells of rows at a time: 32 MiB
MOST_CELLS = 2**27  # of all histograms: 1 GiB


class Slices(Stored, in_files=False):
    """How points are cut: every column by itself, then sums of two columns, from a seed.

    bounds: public, of every column; projections: how many sums (none where there is one column);
    bins: equal cells of each histogram; seed: of the columns and factors of the sums.
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
        """Slices by columns: small integers, so that every sum of steps is exact."""
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
        """How many histograms there are: the cells that one point counts in."""
        return len(self.factors)

    @cached_property
    def box(self) -> Box:
        return Box(*self.bounds)

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the slices in a mean: half for all columns, half for all sums."""
        columns = len(self.bounds[0])
        sums = self.slices - columns
        parts = [np.full(columns, 1 / columns)] + ([np.full(sums, 1 / sums)] if sums else [])
        return np.asarray(np.concatenate(parts) / len(parts))

    def codes(self, inside: np.ndarray) -> np.ndarray:
        """The cell of each clipped point in each slice's histogram."""
        steps = self.box.steps(inside, BITS)
        sums = (steps @ self.factors.T.astype(np.float64)).astype(np.int64)
        least = np.minimum(self.factors, 0).sum(axis=1) * (2**BITS - 1)
        reach = np.abs(self.factors).sum(axis=1) * (2**BITS - 1) + 1
        return np.asarray((sums - least) * self.bins // reach)

    def counted(self, inside: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Slices by cells: the weight of the clipped points."""
        total = np.zeros(self.slices * self.bins, np.int64)
        starts = np.arange(self.slices) * self.bins
        for block in blocks_of(len(inside), self.slices):
            cells = (self.codes(inside[block]) + starts).reshape(-1)
            # Whole weights below 2**31, 2**15 at a time: floats add them exactly.
            each = None if weights is None else np.repeat(weights[block], self.slices)
            total += np.bincount(cells, each, total.size).astype(np.int64)
        return total.reshape(self.slices, self.bins)


def blocks_of(rows: int, slices: int) -> Iterator[slice]:
    """So many rows at a time that their cells take little memory."""
    step = max(1, min(BLOCK, CODES // slices))
    return (slice(start, start + step) for start in range(0, rows, step))


def _factor(words: np.ndarray) -> np.ndarray:
    size = (words >> np.uint64(8)) % np.uint64(FACTORS) + np.uint64(1)
    return np.where(words & np.uint64(1), size.astype(np.int64), -size.astype(np.int64))


class SliceTable(Slices, Sketch):
    """Counts of points in each cell of each slice.

    Guarantee: coordinates are whole steps of the bounds and factors integers, so that cells
    are the same for any order, split or machine: merging is exact.
    Weights are integers from 0.
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
        """Count every point, by its weight or by one."""
        given = points("SliceTable", data, len(self.bounds[0]))
        weighted = integer_weights("SliceTable", weights, len(given))
        added = len(given) if weighted is None else int(weighted.sum())
        total = integer(0).check("SliceTable", "total", self.total + added)
        inside, outside = self.box.clip(given)
        self._table += self.counted(inside, weighted)
        self.total = total
        self.clipped += outside
        return self


FEWEST = 0.5  # points that a cell counts as at least, besides its noise
SCORE_CELLS = 32  # of a histogram of scores, from 0 to the largest that there can be


@dataclass(frozen=True)
class Surprise:
    """The root of the mean square over slices of the surprise past the slice's entropy, in nats.

    Surprise is the negative log of a cell's share; a cell counts as at least its noise. table: of
    slices by cells, with noise of this variance, which is smoothed as it asks.
    """

    slices: Slices
    table: np.ndarray
    variance: float

    @cached_property
    def size(self) -> float:
        """How many points there are, by the mean of the slices' sums, at least one."""
        return max(float(self.table.sum(axis=1).mean()), 1.0)

    @cached_property
    def _shares(self) -> np.ndarray:
        cells = self.table.astype(np.float64)
        smooth, left = smoothed(cells, np.full(len(cells), self.variance))
        least = np.maximum(smooth, np.sqrt(np.maximum(left, 0)) + FEWEST)
        return np.asarray(least / self.size)

    @cached_property
    def squares(self) -> np.ndarray:
        """The squared surprise of each cell past its slice's entropy; 0 where it is less."""
        surprise = -np.log(self._shares)
        told = self._shares / self._shares.sum(axis=1, keepdims=True)
        usual = (told * surprise).sum(axis=1, keepdims=True)
        return np.asarray(np.maximum(surprise - usual, 0.0) ** 2)

    @property
    def mean_square(self) -> float:
        """The mean squared score of the counted points, exact where there is no noise.

        The slices tell it without knowing how they go together, since a mean is linear.
        """
        return float(self.slices.weights @ (self.table * self.squares).sum(axis=1) / self.size)

    @cached_property
    def most(self) -> float:
        """A score that none is above, from the table alone."""
        return max(float(np.sqrt(self.squares.max(axis=1) @ self.slices.weights)), 1e-6)

    def counted(self, scores: np.ndarray) -> np.ndarray:
        """How many scores are in each of the equal cells from 0 to `most`."""
        cells = np.minimum(scores / self.most * SCORE_CELLS, SCORE_CELLS - 1).astype(np.int64)
        return np.bincount(cells, minlength=SCORE_CELLS).astype(np.int64)

    def quantile(self, cells: np.ndarray, share: float) -> float:
        """The score that this share of the points is past, by noisy cells of scores.

        From the usual end, where a few cells hold most points: at the strange end many cells hold
        noise alone.
        """
        below = np.cumsum(cells) / self.size
        reached = below >= 1 - share
        place = int(reached.argmax()) if reached.any() else SCORE_CELLS - 1
        before = below[place - 1] if place else 0.0
        part = np.clip((1 - share - before) / max(below[place] - before, 1e-12), 0, 1)
        return float((place + part) * self.most / SCORE_CELLS)

    def scores(self, inside: np.ndarray) -> np.ndarray:
        """The surprise of clipped points, from 0 up."""
        out = np.empty(len(inside))
        for block in blocks_of(len(inside), self.slices.slices):
            codes = self.slices.codes(inside[block])
            # One slice after another: a product of matrices rounds a row by where it stands among
            # the others, so that one person's row could move another's score into the next cell.
            total = np.zeros(len(codes))
            for squares, weight, cells in zip(
                self.squares, self.slices.weights, codes.T, strict=True
            ):
                total += weight * squares[cells]
            out[block] = np.sqrt(total)
        return out


SHARES = Fraction(9, 10), Fraction(1, 10)  # of the budget: slices, scores


class ReleasedSliceTable(Release, Slices):
    """Histograms of slices that may leave the curator; made by `SketchAnomalyDetector`.

    Guarantee: as its statement says. A point is in one cell of each slice, and in one cell of the
    scores, which are those that the noisy slices give: so the two costs add up.
    Parameters: those of the slices; noise, and its scale in slices and scores, sigma if Gaussian.
    """

    noise: Annotated[str, one_of(LAWS)]
    scale: Annotated[float, positive]
    score_scale: Annotated[float, positive]
    _table: np.ndarray
    _scores: np.ndarray
    _of = "SketchAnomalyDetector"

    def _layout(self) -> dict[str, Cells]:
        return {
            "_table": Cells(np.int64, (self.slices, self.bins)),
            "_scores": Cells(np.int64, (SCORE_CELLS,)),
        }

    def size(self) -> float:
        """How many points there are, as the slices tell."""
        return self.surprise.size

    @cached_property
    def surprise(self) -> Surprise:
        """How strange points are to the noisy slices."""
        return Surprise(self, self._table, NoiseDistribution(self.noise, self.scale).variance)

    def threshold(self, share: float) -> float:
        """The surprise that about this share of the points is past, as the noisy scores tell."""
        return self.surprise.quantile(self._scores, share)


def planned_slices(
    table: SliceTable, inside: np.ndarray, request: ReleaseRequest
) -> CalibratedRelease[ReleasedSliceTable]:
    """The release of a table, and of the scores of the clipped points that it counted."""
    first, second = Step(SHARES[0], table.slices, table.slices), Step(SHARES[1], 1, 1)
    made, loss = cheapest(request, [first, second])
    request.check_room(8 * (table._table.size + SCORE_CELLS))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return _filled(table, inside, replace(made, source=source))

    scales = tuple(map(float, made.scales))
    letter = "scale" if made.law == "Laplace" else "sigma"
    mechanism = (
        f"discrete {made.law} noise in two steps, {letter} {scales[0]:.6g} on each of "
        f"{table.slices} x {table.bins} counters of slices, {scales[1]:.6g} on each of "
        f"{SCORE_CELLS} counters of scores; an event weighs at most 1"
    )
    told = dict(noise=made.law, scale=scales[0], score_scale=scales[1])
    return CalibratedRelease(
        ReleasedSliceTable, {**table.parameters, **told}, loss, mechanism, noisy
    )


def _filled(table: SliceTable, inside: np.ndarray, made: StepNoise) -> dict[str, np.ndarray]:
    slices = made.added(0, table._table.copy())
    surprise = Surprise(table, slices, made.variance(0))
    scores = surprise.counted(surprise.scores(inside))
    return {"_table": slices, "_scores": made.added(1, scores)}


def described_slices(stored: Slices) -> dict[str, Any]:
    """The parameters of an estimator over these slices."""
    return dict(
        bounds=stored.bounds,
        projections=stored.projections,
        bins=stored.bins,
        random_state=stored.seed,
    )


STRENGTHS = 15  # of smoothing that are tried, from none to nearly flat


def smoothed(cells: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of equally wide cells made smooth, and the variance that each cell is left with.

    Guarantee: the sum of a row stays; of a fixed list of smoothing splines each row takes the one
    of the least estimated risk, |smooth - noisy|**2 + 2 variance trace (Stein), which is unbiased
    for the true one where the noise of all cells is independent and of this variance.
    Parameters: cells, one histogram a row; variance, of a cell's noise, one number per row.

    >>> wavy = np.array([[0.0, 20.0, 0.0, 20.0, 0.0, 20.0, 0.0, 20.0]])
    >>> smoothed(wavy, np.array([100.0]))[0].round()
    array([[10., 10., 10., 10., 10., 10., 10., 10.]])
    >>> bool((smoothed(wavy, np.array([0.0]))[0] == wavy).all())
    True

    Stein 1981; splines as filters of the cosine transform: Garcia 2010.
    """
    size = cells.shape[1]
    waves = _cosines(size)
    heights = cells @ waves
    filters = _filters(size)
    left = ((heights[:, None, :] * (1 - filters)) ** 2).sum(axis=2)
    risk = left + 2 * np.asarray(variance)[:, None] * filters.sum(axis=1)
    best = filters[risk.argmin(axis=1)]
    kept = np.asarray(variance)[:, None] * (best**2 @ (waves**2).T)
    smooth = np.where((best == 1).all(axis=1)[:, None], cells, (heights * best) @ waves.T)
    return smooth, kept


def _cosines(size: int) -> np.ndarray:
    """The orthonormal cosine transform: a wave in each column, slowest first."""
    place, wave = np.arange(size)[:, None] + 0.5, np.arange(size)
    waves = np.cos(np.pi * place * wave / size) * np.sqrt(2 / size)
    waves[:, 0] = np.sqrt(1 / size)
    return np.asarray(waves)


def _filters(size: int) -> np.ndarray:
    """What is left of each wave, by strength: 1 / (1 + (strength wave)**4)."""
    strengths = np.r_[0.0, np.geomspace(1 / size, 2.0, STRENGTHS - 1)]
    return np.asarray(1 / (1 + (strengths[:, None] * np.arange(size)) ** 4))

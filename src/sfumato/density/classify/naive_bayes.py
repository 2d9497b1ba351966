"""Column tables of a classifier, filled in three steps and released with noise.

Counts of cells by class, products of columns' evidence, and histograms of scores; each step depends
on the noisy tables before it, and their privacy costs add up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Protocol

import numpy as np

from sfumato.core.bounds import BOUNDS, Pair
from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import integer, one_of, positive
from sfumato.density.classify.encoding import LABELS, LEVELS, Bins
from sfumato.density.classify.log_odds import (
    SCORE_CELLS,
    EvidenceTable,
    Scorer,
    WeightsOfEvidence,
    calibrated,
    contrasts,
)
from sfumato.density.sequential_release import NO_NOISE, Step, StepNoise, cheapest
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest

__all__ = [
    "UNIT",
    "ClassColumns",
    "Columns",
    "CountedRows",
    "LabelledRows",
    "Limits",
    "ReleasedClassColumns",
    "bare",
    "check_cells",
    "limited",
    "pairs_of",
    "planned",
]

UNIT = 256  # integer steps of a typical column's evidence
TYPICAL = Fraction(1, 2)  # largest mean squared evidence per column of a row
BLOCK = 2**11  # rows at a time: they stay in the cache
MOST_CELLS = 2**27  # cells of a table: 1 GiB


def pairs_of(columns: int) -> int:
    """Number of pairs of columns."""
    return columns * (columns - 1) // 2


def check_cells(owner: str, classes: int, cut: Bins) -> None:
    """Raise if the tables would not fit into memory."""
    if classes * (cut.total + pairs_of(cut.columns)) > MOST_CELLS:
        raise ValueError(
            f"{owner}: {classes} classes over {cut.columns} columns of {cut.total} cells in all "
            "take more than 2**27 counters; lower bins, or leave out columns or levels."
        )


@dataclass(frozen=True)
class Limits:
    """Largest contribution of one row to the products of pairs, in squared steps: L1 and L2**2."""

    columns: int
    distribution: str

    @property
    def length(self) -> int:
        """Largest sum of squares of a row, for Gaussian noise."""
        return int(TYPICAL * self.columns * UNIT**2)

    @property
    def l1(self) -> int:
        return max(int(TYPICAL * pairs_of(self.columns) * UNIT**2), 1)

    @property
    def l2_squared(self) -> int:
        return max(self.length**2 * (self.columns - 1) // (2 * self.columns), 1)


def limited(evidence: np.ndarray, limits: Limits) -> np.ndarray:
    """Evidence of rows in integer steps, scaled down where their products would exceed the limit.

    evidence: in units of a typical column's. Steps are rounded toward zero, and a row still over
    the limit (none is) would count as zeros.
    """
    steps = evidence * UNIT
    laplace = limits.distribution == "Laplace"
    over = _contribution(steps, laplace) / (limits.l1 if laplace else limits.length)
    steps /= np.sqrt(np.maximum(over, 1.0))[:, None] * (1 + 1e-9)
    np.trunc(steps, out=steps)
    steps[_contribution(steps, laplace) > (limits.l1 if laplace else limits.length)] = 0
    return np.asarray(steps)


def _may_exceed(steps: np.ndarray, limits: Limits) -> np.ndarray:
    """Rows whose evidence, of which these are the rounded steps, may be over the limit.

    Evidence is less than one step larger, and products grow with it.
    """
    laplace, columns = limits.distribution == "Laplace", steps.shape[1]
    sums = np.einsum("ij->i", np.abs(steps))
    squares = np.einsum("ij,ij->i", steps, steps) + 2 * sums + columns
    largest = ((sums + columns) ** 2 - squares) / 2 if laplace else squares
    return np.flatnonzero(largest > (limits.l1 if laplace else limits.length) * (1 - 1e-6))


def _contribution(steps: np.ndarray, laplace: bool) -> np.ndarray:
    """L1 norm of the products of each row (Laplace), or the sum of its squares (Gaussian)."""
    squares = (steps**2).sum(axis=1)
    return np.asarray((np.abs(steps).sum(axis=1) ** 2 - squares) / 2 if laplace else squares)


class Columns(Stored, in_files=False):
    """Three tables: classes by cells of columns, products of columns, and classes by scores.

    labels: the public list of classes; bounds, bins and levels: how columns are cut, see `Bins`.
    """

    labels: Annotated[tuple[Any, ...], LABELS]
    bounds: Annotated[Pair, BOUNDS]
    bins: Annotated[int, integer(2, 2**12)]
    levels: Annotated[tuple[int, ...], LEVELS]
    _counts: np.ndarray
    _pairs: np.ndarray
    _scores: np.ndarray

    def _check_parameters(self) -> None:
        if len(self.bounds[0]) != len(self.levels):
            raise ValueError(f"{type(self).__name__}: bounds and levels must go together.")
        check_cells(type(self).__name__, len(self.labels), self.cut)
        if any(scale > LARGEST for scale in self._scales):
            raise ValueError(f"{type(self).__name__}: scales must be at most 2**40.")

    @cached_property
    def cut(self) -> Bins:
        """How columns are cut into cells."""
        return Bins(self.bounds, self.bins, self.levels)

    def _layout(self) -> dict[str, Cells]:
        compared, columns = contrasts(len(self.labels)), len(self.levels)
        return {
            "_counts": Cells(np.int64, (len(self.labels), self.cut.total)),
            "_pairs": Cells(np.int64, (len(compared), pairs_of(columns))),
            "_scores": Cells(np.int64, (2, len(compared), SCORE_CELLS)),
        }

    @property
    def _scales(self) -> tuple[float, ...]:
        """Scale of the noise in each table."""
        return ()

    @property
    def _variances(self) -> tuple[float, float, float]:
        """Variance of the noise of a cell in each table."""
        return 0.0, 0.0, 0.0

    @property
    def sizes(self) -> np.ndarray:
        """Estimated number of rows of each class, at least one."""
        return self._evidence.sizes

    def log_odds(self, points: np.ndarray) -> np.ndarray:
        """Calibrated log odds of each contrast against its others, at the classes' sizes."""
        codes = self.cut.codes(points)
        out = np.empty((len(points), len(self._scorers)))
        calibrated_scorers = zip(self._scorers, self._calibrations, strict=True)
        for position, (scorer, (slope, intercept)) in enumerate(calibrated_scorers):
            out[:, position] = slope * scorer.scores(codes) + intercept
        return out

    @cached_property
    def _calibrations(self) -> list[tuple[float, float]]:
        """Slope and intercept of each contrast; the tables never change once they are made."""
        others, mine = self._scores
        return [
            calibrated(others[position], mine[position], scorer.limit, self._variances[2])
            for position, scorer in enumerate(self._scorers)
        ]

    @cached_property
    def _evidence(self) -> WeightsOfEvidence:
        return WeightsOfEvidence(self.cut, self._counts, self._variances[0])

    @cached_property
    def _tables(self) -> list[EvidenceTable]:
        return [self._evidence.table(k) for k in contrasts(len(self.labels))]

    @cached_property
    def _scorers(self) -> list[Scorer]:
        return [
            scorer_of(table, products, self._variances[1])
            for table, products in zip(self._tables, self._pairs, strict=True)
        ]


def scorer_of(table: EvidenceTable, products: np.ndarray, variance: float) -> Scorer:
    """The scorer from a table and sums of products in steps, with noise of this variance."""
    rows = float(table.sizes.sum()) * (UNIT / table.unit) ** 2
    return table.scorer(products / rows, math.sqrt(variance) / rows)


class ClassColumns(Columns):
    """The three tables without noise, for the curator."""

    @classmethod
    def _make(cls, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ClassColumns":
        made = cls.__new__(cls)
        made._set_parameters(**parameters)
        for name in made._layout():
            setattr(made, name, arrays[name])
        return made


class ReleasedClassColumns(Release, Columns):
    """The three tables with noise; made by `SketchClassifier`.

    The guarantee is that of its statement. The second and third table depend on the noisy tables
    before them, so that the three costs add up; a row is in the cells of its own class only.
    Parameters: those of the tables; noise, and its scale in each table, sigma if Gaussian.
    """

    noise: Annotated[str, one_of(LAWS)]
    count_scale: Annotated[float, positive]
    pair_scale: Annotated[float, positive]
    score_scale: Annotated[float, positive]
    _of = "SketchClassifier"

    def noisy_total(self) -> tuple[float, float]:
        """The noisy number of rows of all classes, and the standard deviation of its noise."""
        total = self.cut.sums(self._counts).mean(axis=1).sum()
        return float(total), math.sqrt(self._counts.size * self._variances[0]) / self.cut.columns

    @property
    def _scales(self) -> tuple[float, ...]:
        return self.count_scale, self.pair_scale, self.score_scale

    @property
    def _variances(self) -> tuple[float, float, float]:
        first, second, third = (
            NoiseDistribution(self.noise, scale).variance for scale in self._scales
        )
        return first, second, third


BUDGET = Fraction(15, 20), Fraction(3, 20), Fraction(2, 20)  # fractions of epsilon, by step


@dataclass(frozen=True)
class LabelledRows:
    """Cells of rows by column, indices of their classes, and integer weights or None for ones."""

    codes: np.ndarray
    positions: np.ndarray
    weights: np.ndarray | None

    def counts(self, classes: int, cells: int) -> np.ndarray:
        """Counts by class and cell of all columns."""
        out, first = np.zeros(classes * cells, np.int64), self.positions * cells
        for column in self.codes.T:
            out += _counted(first + column, self.weights, classes * cells)
        return out.reshape(classes, cells)

    def products(self, table: EvidenceTable, limits: Limits, cut: Bins) -> np.ndarray:
        """Sums of products of two columns' evidence, in integer steps."""
        columns = self.codes.shape[1]
        total = np.zeros((columns, columns), np.int64)
        evidence = (table.cells - cut.per_cell(table.centre)) / table.unit
        whole = np.trunc(evidence * UNIT / (1 + 1e-9))  # as `limited` does below the limit
        for start in range(0, len(self.codes), BLOCK):
            block = slice(start, start + BLOCK)
            codes = np.ascontiguousarray(self.codes[block])
            steps = whole[codes]
            large = _may_exceed(steps, limits)
            steps[large] = limited(evidence[codes[large]], limits)
            weighed = steps if self.weights is None else steps * self.weights[block, None]
            total += (steps.T @ weighed).astype(np.int64)  # exact: a block's sums are below 2**53
        return np.asarray(total[np.triu_indices(columns, 1)])

    def product_table(
        self, tables: Sequence[EvidenceTable], limits: Limits, cut: Bins
    ) -> np.ndarray:
        """Sums of products of two columns' evidence, by contrast."""
        out = np.zeros((len(tables), pairs_of(cut.columns)), np.int64)
        for position, table in enumerate(tables):
            out[position] = self.products(table, limits, cut)
        return out

    def scores(self, k: int, scorer: Scorer) -> np.ndarray:
        """Histograms of scores of the others (0) and of class k (1)."""
        cells = scorer.cells(self.codes) + SCORE_CELLS * (self.positions == k)
        return _counted(cells, self.weights, 2 * SCORE_CELLS).reshape(2, SCORE_CELLS)

    def score_table(self, compared: Sequence[int], scorers: Sequence[Scorer]) -> np.ndarray:
        """Histograms of scores of the others and of each class, by contrast."""
        out = np.zeros((2, len(compared), SCORE_CELLS), np.int64)
        for position, (k, scorer) in enumerate(zip(compared, scorers, strict=True)):
            out[:, position] = self.scores(k, scorer)
        return out


class CountedRows(Protocol):
    """Rows that are counted in three passes, in memory or in the partitions of an engine."""

    def counts(self, classes: int, cells: int) -> np.ndarray: ...

    def product_table(
        self, tables: Sequence[EvidenceTable], limits: Limits, cut: Bins
    ) -> np.ndarray: ...

    def score_table(self, compared: Sequence[int], scorers: Sequence[Scorer]) -> np.ndarray: ...


def _counted(cells: np.ndarray, weights: np.ndarray | None, size: int) -> np.ndarray:
    # Weights are integers with sums below 2**53, so that floats add them exactly.
    return np.bincount(cells, weights, size).astype(np.int64)


def filled(
    rows: CountedRows, cut: Bins, classes: int, step_noise: StepNoise
) -> dict[str, np.ndarray]:
    """Fill the three tables; each step reads the rows and the noisy tables before it."""
    compared, limits = contrasts(classes), Limits(cut.columns, step_noise.distribution)
    counts = step_noise.added(0, rows.counts(classes, cut.total))
    evidence = WeightsOfEvidence(cut, counts, step_noise.variance(0))
    tables = [evidence.table(k) for k in compared]
    pairs = step_noise.added(1, rows.product_table(tables, limits, cut))
    scorers = [
        scorer_of(table, products, step_noise.variance(1))
        for table, products in zip(tables, pairs, strict=True)
    ]
    scores = step_noise.added(2, rows.score_table(compared, scorers))
    return {"_counts": counts, "_pairs": pairs, "_scores": scores}


def bare(parameters: dict[str, Any], rows: CountedRows) -> ClassColumns:
    """The tables without noise, for the curator."""
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    return ClassColumns._make(parameters, filled(rows, cut, len(parameters["labels"]), NO_NOISE))


def planned(
    parameters: dict[str, Any], rows: CountedRows, request: ReleaseRequest
) -> CalibratedRelease[ReleasedClassColumns]:
    """The calibrated release of the tables for this request.

    One row of one class changes, by 1 each, a cell of every column in the first table and a cell of
    every contrast in the third, and the second by at most `Limits`, whatever the tables before it
    are. So the steps compose: their pure epsilons, or zCDP rhos, sum to that of the request.
    """
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    classes = len(parameters["labels"])
    step_noise, loss = cheapest(
        request, *(_steps(distribution, cut, classes) for distribution in LAWS)
    )
    contrast_cells = pairs_of(cut.columns) + 2 * SCORE_CELLS
    request.check_room(8 * classes * (cut.total + contrast_cells))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return filled(rows, cut, classes, replace(step_noise, source=source))

    first, second, third = map(float, step_noise.scales)
    symbol = "scale" if step_noise.distribution == "Laplace" else "sigma"
    mechanism = (
        f"discrete {step_noise.distribution} noise in three steps, {symbol} {first:.6g} on each of "
        f"{classes} x {cut.total} counters of columns, {second:.6g} on products of columns, "
        f"{third:.6g} on counters of scores; an event weighs at most 1"
    )
    scales = dict(
        noise=step_noise.distribution, count_scale=first, pair_scale=second, score_scale=third
    )
    return CalibratedRelease(ReleasedClassColumns, {**parameters, **scales}, loss, mechanism, noisy)


def _steps(distribution: str, cut: Bins, classes: int) -> list[Step]:
    """Sensitivities of one row in each table; a single class counts as one contrast."""
    limits, compared = Limits(cut.columns, distribution), max(len(contrasts(classes)), 1)
    return [
        Step(BUDGET[0], cut.columns, cut.columns),
        Step(BUDGET[1], compared * limits.l1, compared * limits.l2_squared, exchanged=4),
        Step(BUDGET[2], compared, compared),
    ]

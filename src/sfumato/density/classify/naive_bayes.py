"""Classes told from columns: what is counted in three steps, kept bare or released with noise.

The three steps that fill the tables of a column classifier, and what they cost together.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

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
    "LabelledRows",
    "ReleasedClassColumns",
    "bare",
    "check_cells",
    "limited",
    "pairs_of",
    "planned",
]

UNIT = 256  # steps of a usual column's evidence
TYPICAL = Fraction(1, 2)  # squared evidence of a column, on average, that a row may have
BLOCK = 2**15  # rows at a time
MOST_CELLS = 2**27  # of a table: 1 GiB


def pairs_of(columns: int) -> int:
    """How many pairs of columns there are."""
    return columns * (columns - 1) // 2


def check_cells(owner: str, classes: int, cut: Bins) -> None:
    """Raise where the tables would not fit into memory."""
    if classes * (cut.total + pairs_of(cut.columns)) > MOST_CELLS:
        raise ValueError(
            f"{owner}: {classes} classes over {cut.columns} columns of {cut.total} cells in all "
            "take more than 2**27 counters; lower bins, or leave out columns or levels."
        )


@dataclass(frozen=True)
class Limits:
    """The most that one row adds to the products of pairs, in steps squared: L1 and squared L2."""

    columns: int
    law: str

    @property
    def length(self) -> int:
        """Of the sum of a row's squares, where noise is Gaussian."""
        return int(TYPICAL * self.columns * UNIT**2)

    @property
    def l1(self) -> int:
        return max(int(TYPICAL * pairs_of(self.columns) * UNIT**2), 1)

    @property
    def l2_squared(self) -> int:
        return max(self.length**2 * (self.columns - 1) // (2 * self.columns), 1)


def limited(evidence: np.ndarray, limits: Limits) -> np.ndarray:
    """Rows of evidence in whole steps, drawn in where their products would be over the limit.

    evidence: in units of a usual column's. Rounding goes toward zero, and a row that were still
    over the limit (none is) would count as zeros.
    """
    steps = evidence * UNIT
    laplace = limits.law == "Laplace"
    over = _reach(steps, laplace) / (limits.l1 if laplace else limits.length)
    steps /= np.sqrt(np.maximum(over, 1.0))[:, None] * (1 + 1e-9)
    np.trunc(steps, out=steps)
    steps[_reach(steps, laplace) > (limits.l1 if laplace else limits.length)] = 0
    return np.asarray(steps)


def _reach(steps: np.ndarray, laplace: bool) -> np.ndarray:
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
        held, columns = contrasts(len(self.labels)), len(self.levels)
        return {
            "_counts": Cells(np.int64, (len(self.labels), self.cut.total)),
            "_pairs": Cells(np.int64, (len(held), pairs_of(columns))),
            "_scores": Cells(np.int64, (2, len(held), SCORE_CELLS)),
        }

    @property
    def _scales(self) -> tuple[float, ...]:
        """Of the noise in each table."""
        return ()

    @property
    def _variances(self) -> tuple[float, float, float]:
        """Of the noise of a cell of each table."""
        return 0.0, 0.0, 0.0

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each class has, as its cells tell, at least one."""
        return self._evidence.sizes

    def log_odds(self, points: np.ndarray) -> np.ndarray:
        """The log odds of each contrast against its others, at the classes' sizes."""
        codes = self.cut.codes(points)
        out = np.empty((len(points), len(self._scorers)))
        for place, scorer in enumerate(self._scorers):
            mine, others = self._scores[1, place], self._scores[0, place]
            slope, start = calibrated(others, mine, scorer.reach, self._variances[2])
            out[:, place] = slope * scorer.scores(codes) + start
        return out

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
    """The scores that a table and sums of products in steps, with noise, make."""
    rows = float(table.sizes.sum()) * (UNIT / table.unit) ** 2
    return table.scorer(products / rows, math.sqrt(variance) / rows)


class ClassColumns(Columns):
    """The three tables as they are: for the curator."""

    @classmethod
    def _make(cls, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ClassColumns":
        made = cls.__new__(cls)
        made._set_parameters(**parameters)
        for name in made._layout():
            setattr(made, name, arrays[name])
        return made


class ReleasedClassColumns(Release, Columns):
    """The three tables with noise; made by `SketchClassifier`.

    Guarantee: as its statement says. The second and third table are about what the noisy tables
    before them tell, so that the three costs add up; a row is in the cells of its own class only.
    Parameters: those of the tables; noise and the scale of it in each table, sigma if Gaussian.
    """

    noise: Annotated[str, one_of(LAWS)]
    count_scale: Annotated[float, positive]
    pair_scale: Annotated[float, positive]
    score_scale: Annotated[float, positive]
    _of = "SketchClassifier"

    @property
    def _scales(self) -> tuple[float, ...]:
        return self.count_scale, self.pair_scale, self.score_scale

    @property
    def _variances(self) -> tuple[float, float, float]:
        first, second, third = (
            NoiseDistribution(self.noise, scale).variance for scale in self._scales
        )
        return first, second, third


SHARES = Fraction(15, 20), Fraction(3, 20), Fraction(2, 20)  # of the budget, by step


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows: cells of columns, places of classes, and whole weights or None for ones."""

    codes: np.ndarray
    positions: np.ndarray
    weights: np.ndarray | None

    def counts(self, classes: int, cells: int) -> np.ndarray:
        """Classes by cells of all columns."""
        out = np.zeros(classes * cells, np.int64)
        for column in self.codes.T:
            out += _counted(self.positions * cells + column, self.weights, classes * cells)
        return out.reshape(classes, cells)

    def products(self, table: EvidenceTable, limits: Limits) -> np.ndarray:
        """Sums of products of two columns' evidence, in whole steps."""
        columns = self.codes.shape[1]
        total = np.zeros((columns, columns), np.int64)
        for start in range(0, len(self.codes), BLOCK):
            block = slice(start, start + BLOCK)
            steps = limited(table.rows(self.codes[block]) / table.unit, limits)
            weighed = steps if self.weights is None else steps * self.weights[block, None]
            total += (steps.T @ weighed).astype(np.int64)  # exact: a block's sums are below 2**53
        return np.asarray(total[np.triu_indices(columns, 1)])

    def scores(self, k: int, scorer: Scorer) -> np.ndarray:
        """The others (0) and class k (1) by cells of scores."""
        cells = scorer.cells(self.codes) + SCORE_CELLS * (self.positions == k)
        return _counted(cells, self.weights, 2 * SCORE_CELLS).reshape(2, SCORE_CELLS)


def _counted(cells: np.ndarray, weights: np.ndarray | None, size: int) -> np.ndarray:
    # Weights are whole and their sums below 2**53, so that floats add them exactly.
    return np.bincount(cells, weights, size).astype(np.int64)


def filled(rows: LabelledRows, cut: Bins, classes: int, made: StepNoise) -> dict[str, np.ndarray]:
    """The three tables; each step reads the rows and the tables before it, with their noise."""
    held, limits = contrasts(classes), Limits(cut.columns, made.law)
    counts = made.added(0, rows.counts(classes, cut.total))
    evidence = WeightsOfEvidence(cut, counts, made.variance(0))
    tables = [evidence.table(k) for k in held]
    pairs = np.zeros((len(held), pairs_of(cut.columns)), np.int64)
    for place, table in enumerate(tables):
        pairs[place] = rows.products(table, limits)
    made.added(1, pairs)
    scores = np.zeros((2, len(held), SCORE_CELLS), np.int64)
    for place, (k, table) in enumerate(zip(held, tables, strict=True)):
        scorer = scorer_of(table, pairs[place], made.variance(1))
        scores[:, place] = rows.scores(k, scorer)
    return {"_counts": counts, "_pairs": pairs, "_scores": made.added(2, scores)}


def bare(parameters: dict[str, Any], rows: LabelledRows) -> ClassColumns:
    """The tables without noise: for the curator."""
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    return ClassColumns._make(parameters, filled(rows, cut, len(parameters["labels"]), NO_NOISE))


def planned(
    parameters: dict[str, Any], rows: LabelledRows, request: ReleaseRequest
) -> CalibratedRelease[ReleasedClassColumns]:
    """The release of the tables under these terms.

    Guarantee: one row of one class changes, by 1 each, a cell of every column in the first table
    and a cell of every contrast in the third, and the second by at most `Limits`, for any tables
    before it. So the steps compose: their pure epsilons, or rhos, add up to that of the terms.
    """
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    classes = len(parameters["labels"])
    made, loss = cheapest(request, *(_steps(law, cut, classes) for law in LAWS))
    contrast_cells = pairs_of(cut.columns) + 2 * SCORE_CELLS
    request.check_room(8 * classes * (cut.total + contrast_cells))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return filled(rows, cut, classes, replace(made, source=source))

    first, second, third = map(float, made.scales)
    letter = "scale" if made.law == "Laplace" else "sigma"
    mechanism = (
        f"discrete {made.law} noise in three steps, {letter} {first:.6g} on each of "
        f"{classes} x {cut.total} counters of columns, {second:.6g} on products of columns, "
        f"{third:.6g} on counters of scores; an event weighs at most 1"
    )
    scales = dict(noise=made.law, count_scale=first, pair_scale=second, score_scale=third)
    return CalibratedRelease(ReleasedClassColumns, {**parameters, **scales}, loss, mechanism, noisy)


def _steps(law: str, cut: Bins, classes: int) -> list[Step]:
    """The reach of one row in each table; where one class needs no contrast, as if it had one."""
    limits, held = Limits(cut.columns, law), max(len(contrasts(classes)), 1)
    return [
        Step(SHARES[0], cut.columns, cut.columns),
        Step(SHARES[1], held * limits.l1, held * limits.l2_squared, exchanged=4),
        Step(SHARES[2], held, held),
    ]

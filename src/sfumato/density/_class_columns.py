"""Classes told from columns: what is counted in three steps, kept bare or released with noise."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import one_of, positive, whole
from sfumato.density._bins import LEVELS, Bins
from sfumato.density._class_labels import LABELS
from sfumato.density._evidence import SCORE_CELLS, Evidence, Scorer, Table, calibrated, contrasts
from sfumato.privacy.noise import LARGEST
from sfumato.privacy.noise_law import LAWS, NoiseLaw
from sfumato.sketch._points import BOUNDS, Pair
from sfumato.sketch._release import Release
from sfumato.sketch._stored import Cells, Stored

__all__ = [
    "UNIT",
    "ClassColumns",
    "Columns",
    "ReleasedClassColumns",
    "check_cells",
    "limited",
    "pairs_of",
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
    bins: Annotated[int, whole(2, 2**12)]
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
    def _evidence(self) -> Evidence:
        return Evidence(self.cut, self._counts, self._variances[0])

    @cached_property
    def _tables(self) -> list[Table]:
        return [self._evidence.table(k) for k in contrasts(len(self.labels))]

    @cached_property
    def _scorers(self) -> list[Scorer]:
        return [
            scorer_of(table, products, self._variances[1])
            for table, products in zip(self._tables, self._pairs, strict=True)
        ]


def scorer_of(table: Table, products: np.ndarray, variance: float) -> Scorer:
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
        first, second, third = (NoiseLaw(self.noise, scale).variance for scale in self._scales)
        return first, second, third

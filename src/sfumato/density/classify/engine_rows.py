"""Labelled rows of an engine: the same tables and sketches as of rows in memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.bounds import Box
from sfumato.density.classify.encoding import Bins, listed_positions
from sfumato.density.classify.log_odds import SCORE_CELLS, EvidenceTable, Scorer
from sfumato.density.classify.naive_bayes import LabelledRows, Limits, pairs_of
from sfumato.density.engine_points import PointReading, PointRows

__all__ = ["ClassPositions", "EngineLabelled"]


@dataclass(frozen=True)
class ClassPositions:
    """Function from labels to their indices in the public list, NaN for others."""

    owner: str
    classes: tuple[Any, ...]

    def __call__(self, labels: Any) -> np.ndarray:
        positions = listed_positions(self.owner, labels, self.classes)
        return np.where(positions < 0, np.nan, positions)


@dataclass(frozen=True)
class EngineLabelled:
    """Points of an engine with the indices of their classes beside them, as `Labelled`."""

    rows: PointRows
    reading: PointReading
    weights = None

    @property
    def points(self) -> np.ndarray:
        """No points, with as many columns as there are."""
        return np.empty((0, self.rows.columns))

    def outside(self, box: Box) -> int:
        """The number of points outside the bounds."""
        return int(self.rows.total(lambda points, _: np.array(box.clip(points)[1]), ()))

    def filled(self, make: Callable[[], Any], classes: int) -> list[Any]:
        """A sketch of each class, with its points."""

        def add(sketches: list[Any], points: np.ndarray, beside: Any) -> list[Any]:
            for k, sketch in enumerate(sketches):
                sketch.update(points[beside == k])
            return sketches

        def merge(left: list[Any], right: list[Any]) -> list[Any]:
            return [mine.merge(yours) for mine, yours in zip(left, right, strict=True)]

        sketches = self.rows.fold(lambda: [make() for _ in range(classes)], add, merge)
        self.reading.require_rows(sum(sketch.total for sketch in sketches))
        return sketches

    def coded(self, cut: Bins, classes: int) -> "_EngineColumns":
        """The rows as cells of columns, kept for three passes, of which this is the first."""
        self.rows.persist()
        found = _EngineColumns(self.rows, cut, classes)
        self.reading.require_rows(int(found.counts(classes, cut.total).sum()))
        return found


class _EngineColumns:
    """Cells of rows by column, as `LabelledRows`; one pass over all rows for each table."""

    def __init__(self, rows: PointRows, cut: Bins, classes: int) -> None:
        self._rows, self._cut = rows, cut
        # Before anything is charged, as reading the rows may fail.
        self._counts = self._total(
            lambda each: each.counts(classes, cut.total), (classes, cut.total)
        )

    def _total(
        self, cells: Callable[[LabelledRows], np.ndarray], shape: tuple[int, ...]
    ) -> np.ndarray:
        cut = self._cut

        def added(points: np.ndarray, beside: Any) -> np.ndarray:
            return cells(LabelledRows(cut.codes(points), beside.astype(np.int64), None))

        return self._rows.total(added, shape)

    def counts(self, classes: int, cells: int) -> np.ndarray:
        """Counts by class and cell of all columns."""
        return self._counts.copy()

    def product_table(
        self, tables: Sequence[EvidenceTable], limits: Limits, cut: Bins
    ) -> np.ndarray:
        """Sums of products of two columns' evidence, by contrast."""
        return self._total(
            lambda rows: rows.product_table(tables, limits, cut),
            (len(tables), pairs_of(cut.columns)),
        )

    def score_table(self, compared: Sequence[int], scorers: Sequence[Scorer]) -> np.ndarray:
        """Histograms of scores of the others and of each class, by contrast."""
        return self._total(
            lambda rows: rows.score_table(compared, scorers), (2, len(compared), SCORE_CELLS)
        )

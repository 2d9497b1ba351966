"""Multinomial logistic regression over columns and their evidence, for use without privacy.

The features of a row are its columns in units of their deviations and, with less weight, the
evidence of their cells for each class, by which a class may prefer the middle of a column.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np

from sfumato.core.bounds import BOUNDS, Pair
from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import integer
from sfumato.density.classify.encoding import LABELS, LEVELS, Bins
from sfumato.density.classify.log_odds import WeightsOfEvidence, contrasts
from sfumato.density.classify.naive_bayes import check_cells

__all__ = ["ClassLogits", "fitted_logits"]

EVIDENCE = 0.1  # deviation of a column's evidence; that of a column itself is 1
BLOCK = 2**13  # rows at a time
MOST_FEATURES = 2**26  # numbers that stay in memory between the steps: 256 MiB
MANY, SHARE = 2**15, 8  # so many rows begin from what every eighth of them ends with
STEPS = 200
TOLERANCE = 1e-5  # of the gradient of the mean loss


class ClassLogits(Stored):
    """Weights of features for each class, and the counts of cells that evidence comes from.

    labels: the list of classes; bounds, bins and levels: how columns are cut, see `Bins`.
    """

    labels: Annotated[tuple[Any, ...], LABELS]
    bounds: Annotated[Pair, BOUNDS]
    bins: Annotated[int, integer(2, 2**12)]
    levels: Annotated[tuple[int, ...], LEVELS]
    _counts: np.ndarray
    _moments: np.ndarray
    _weights: np.ndarray

    @classmethod
    def _make(cls, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ClassLogits":
        made = cls.__new__(cls)
        made._set_parameters(**parameters)
        for name in made._layout():
            setattr(made, name, arrays[name])
        return made

    def _check_parameters(self) -> None:
        if len(self.bounds[0]) != len(self.levels):
            raise ValueError(f"{type(self).__name__}: bounds and levels must go together.")
        check_cells(type(self).__name__, len(self.labels), self.cut)

    @cached_property
    def cut(self) -> Bins:
        """How columns are cut into cells."""
        return Bins(self.bounds, self.bins, self.levels)

    def _layout(self) -> dict[str, Cells]:
        classes, columns = len(self.labels), len(self.levels)
        features = columns * (1 + len(contrasts(classes)))
        return {
            "_counts": Cells(np.int64, (classes, self.cut.total)),
            "_moments": Cells(np.float64, (2, columns)),
            "_weights": Cells(np.float64, (classes, features + 1)),
        }

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of rows of each class, at least one."""
        return self._features.evidence.sizes

    @cached_property
    def _features(self) -> "RowFeatures":
        return RowFeatures(self.cut, self._counts, self._moments)

    def logits(self, points: np.ndarray) -> np.ndarray:
        """Log probability of each class up to a constant of the row, at the classes' sizes."""
        parts = [
            self._features(points[start : start + BLOCK]) @ self._weights[:, :-1].T
            for start in range(0, len(points), BLOCK)
        ]
        return np.asarray(np.concatenate(parts) + self._weights[:, -1])


@dataclass(frozen=True)
class RowFeatures:
    """The features of rows; moments: means and deviations of the columns."""

    cut: Bins
    counts: np.ndarray
    moments: np.ndarray

    @cached_property
    def evidence(self) -> WeightsOfEvidence:
        return WeightsOfEvidence(self.cut, self.counts, 0.0)

    @cached_property
    def _tables(self) -> list[np.ndarray]:
        """Evidence of each cell for each contrast, centred and of deviation EVIDENCE."""
        tables = [self.evidence.table(k) for k in contrasts(len(self.counts))]
        return [
            (table.cells - self.cut.per_cell(table.centre))
            * self.cut.per_cell(EVIDENCE / np.sqrt(np.maximum(table.variance, 1e-6)))
            for table in tables
        ]

    def __call__(self, points: np.ndarray) -> np.ndarray:
        low, high = (np.array(side) for side in self.cut.bounds)
        codes = self.cut.codes(points)
        own = (np.clip(points, low, high) - self.moments[0]) / self.moments[1]
        # A code has no order: evidence stands for it in full, and its number counts nothing.
        category = np.array(self.cut.levels) > 0
        own[:, category] = 0
        scale = np.where(category, 1 / EVIDENCE, 1.0)
        return np.hstack([own, *(table[codes] * scale for table in self._tables)])


def fitted_logits(
    parameters: dict[str, Any],
    points: np.ndarray,
    positions: np.ndarray,
    weights: np.ndarray | None,
    counts: np.ndarray,
) -> ClassLogits:
    """Minimise the sum of log losses plus half the squared weights, by L-BFGS.

    positions: classes of rows; weights: of rows, or None for ones; counts: of cells by class.
    """
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    rows = np.ones(len(points)) if weights is None else weights.astype(np.float64)
    inside = np.clip(points, *(np.array(side) for side in parameters["bounds"]))
    mean = rows @ inside / rows.sum()
    deviation = np.sqrt(rows @ (inside - mean) ** 2 / rows.sum())
    moments = np.stack([mean, np.where(deviation > 0, deviation, 1.0)])
    features = RowFeatures(cut, counts, moments)
    shape = len(counts), len(parameters["levels"]) * (1 + len(contrasts(len(counts)))) + 1
    best = np.zeros(shape)
    best[:, -1] = np.log(features.evidence.sizes / features.evidence.sizes.sum())
    # Of few rows, rounding would matter beside the tolerance; of many it halves the time.
    many, some = len(points) >= MANY, slice(None, None, SHARE)
    loss = partial(_MeanLoss.of, features, np.float32 if many else np.float64)
    if many and rows[some].any():  # a start for all: some rows that count take most of the steps
        best = loss(points[some], positions[some], rows[some]).least(best)
    best = loss(points, positions, rows).least(best)
    arrays = {"_counts": counts, "_moments": moments, "_weights": best}
    return ClassLogits._make(parameters, arrays)


@dataclass(frozen=True)
class _MeanLoss:
    """The mean log loss and half the squared weights over the number of rows, with its gradient."""

    blocks: Callable[[], Iterable[tuple[slice, np.ndarray]]]
    positions: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(
        cls,
        features: RowFeatures,
        dtype: Any,
        points: np.ndarray,
        positions: np.ndarray,
        rows: np.ndarray,
    ) -> "_MeanLoss":
        """The loss of rows whose features are kept, or made at every step if they are too many."""
        made = partial(_blocks, features, points, dtype)
        width = len(features.cut.levels) * (1 + len(contrasts(len(features.counts))))
        if len(points) * width > MOST_FEATURES:
            return cls(made, positions, rows)
        held = list(made())
        return cls(lambda: held, positions, rows)

    def least(self, start: np.ndarray) -> np.ndarray:
        """The weights of the smallest loss, by L-BFGS."""
        from scipy.optimize import minimize  # here, since its import takes a while

        options = {"maxiter": STEPS, "gtol": TOLERANCE}

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            return self.at(flat.reshape(start.shape))

        found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x.reshape(start.shape))

    def at(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss, and its gradient as one row."""
        gradient = weights.copy()
        gradient[:, -1] = 0
        total = float((gradient**2).sum()) / 2
        slopes = np.ascontiguousarray(weights[:, :-1])
        for block, made in self.blocks():
            logits = slopes.astype(made.dtype) @ made.T + weights[:, -1:]
            logits -= logits.max(axis=0)
            odds = np.exp(logits)
            sums = odds.sum(axis=0)
            own, at = self.positions[block], np.arange(len(made))
            total += float(self.rows[block] @ (np.log(sums) - logits[own, at]))
            odds /= sums
            odds[own, at] -= 1
            odds *= self.rows[block]
            gradient[:, :-1] += odds.astype(made.dtype) @ made
            gradient[:, -1] += odds.sum(axis=1)
        size = self.rows.sum()
        return total / size, gradient.reshape(-1) / size


def _blocks(
    features: RowFeatures, points: np.ndarray, dtype: Any
) -> Iterator[tuple[slice, np.ndarray]]:
    """The features of some rows at a time."""
    for start in range(0, len(points), BLOCK):
        block = slice(start, start + BLOCK)
        yield block, features(points[block]).astype(dtype, copy=False)

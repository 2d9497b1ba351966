"""The three steps that fill the tables of a column classifier, and what they cost together."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.density._bins import Bins
from sfumato.density._class_columns import (
    BLOCK,
    ClassColumns,
    Limits,
    ReleasedClassColumns,
    limited,
    pairs_of,
    scorer_of,
)
from sfumato.density._evidence import SCORE_CELLS, Evidence, Scorer, Table, contrasts
from sfumato.density._step_noise import NO_NOISE, Step, StepNoise, cheapest
from sfumato.privacy._source import Source
from sfumato.privacy.noise_law import LAWS
from sfumato.sketch._release import Plan, Terms

__all__ = ["Rows", "bare", "planned"]

SHARES = Fraction(15, 20), Fraction(3, 20), Fraction(2, 20)  # of the budget, by step


@dataclass(frozen=True)
class Rows:
    """Labelled rows: cells of columns, places of classes, and whole weights or None for ones."""

    codes: np.ndarray
    places: np.ndarray
    weights: np.ndarray | None

    def counts(self, classes: int, cells: int) -> np.ndarray:
        """Classes by cells of all columns."""
        out = np.zeros(classes * cells, np.int64)
        for column in self.codes.T:
            out += _counted(self.places * cells + column, self.weights, classes * cells)
        return out.reshape(classes, cells)

    def products(self, table: Table, limits: Limits) -> np.ndarray:
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
        cells = scorer.cells(self.codes) + SCORE_CELLS * (self.places == k)
        return _counted(cells, self.weights, 2 * SCORE_CELLS).reshape(2, SCORE_CELLS)


def _counted(cells: np.ndarray, weights: np.ndarray | None, size: int) -> np.ndarray:
    # Weights are whole and their sums below 2**53, so that floats add them exactly.
    return np.bincount(cells, weights, size).astype(np.int64)


def filled(rows: Rows, cut: Bins, classes: int, made: StepNoise) -> dict[str, np.ndarray]:
    """The three tables; each step reads the rows and the tables before it, with their noise."""
    held, limits = contrasts(classes), Limits(cut.columns, made.law)
    counts = made.added(0, rows.counts(classes, cut.total))
    evidence = Evidence(cut, counts, made.variance(0))
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


def bare(parameters: dict[str, Any], rows: Rows) -> ClassColumns:
    """The tables without noise: for the curator."""
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    return ClassColumns._make(parameters, filled(rows, cut, len(parameters["labels"]), NO_NOISE))


def planned(parameters: dict[str, Any], rows: Rows, terms: Terms) -> Plan[ReleasedClassColumns]:
    """The release of the tables under these terms.

    Guarantee: one row of one class changes, by 1 each, a cell of every column in the first table
    and a cell of every contrast in the third, and the second by at most `Limits`, for any tables
    before it. So the steps compose: their pure epsilons, or rhos, add up to that of the terms.
    """
    cut = Bins(parameters["bounds"], parameters["bins"], parameters["levels"])
    classes = len(parameters["labels"])
    made, loss = cheapest(terms, *(_steps(law, cut, classes) for law in LAWS))
    contrast_cells = pairs_of(cut.columns) + 2 * SCORE_CELLS
    terms.check_room(8 * classes * (cut.total + contrast_cells))

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
    return Plan(ReleasedClassColumns, {**parameters, **scales}, loss, mechanism, noisy)


def _steps(law: str, cut: Bins, classes: int) -> list[Step]:
    """The reach of one row in each table; where one class needs no contrast, as if it had one."""
    limits, held = Limits(cut.columns, law), max(len(contrasts(classes)), 1)
    return [
        Step(SHARES[0], cut.columns, cut.columns),
        Step(SHARES[1], held * limits.l1, held * limits.l2_squared, exchanged=4),
        Step(SHARES[2], held, held),
    ]

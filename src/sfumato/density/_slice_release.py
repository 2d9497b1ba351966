"""Histograms of slices with noise, then of the scores that the noisy ones give."""

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato._require import one_of, positive
from sfumato.density._slice_table import Slices, SliceTable
from sfumato.density._step_noise import Step, StepNoise, cheapest
from sfumato.density._surprise import SCORE_CELLS, Surprise
from sfumato.privacy._source import Source
from sfumato.privacy.noise_law import LAWS, NoiseLaw
from sfumato.sketch._release import Plan, Release, Terms
from sfumato.sketch._stored import Cells

__all__ = ["ReleasedSliceTable", "described_slices", "planned_slices"]

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
        return Surprise(self, self._table, NoiseLaw(self.noise, self.scale).variance)

    def threshold(self, share: float) -> float:
        """The surprise that about this share of the points is past, as the noisy scores tell."""
        return self.surprise.quantile(self._scores, share)


def planned_slices(table: SliceTable, inside: np.ndarray, terms: Terms) -> Plan[ReleasedSliceTable]:
    """The release of a table, and of the scores of the clipped points that it counted."""
    first, second = Step(SHARES[0], table.slices, table.slices), Step(SHARES[1], 1, 1)
    made, loss = cheapest(terms, [first, second])
    terms.check_room(8 * (table._table.size + SCORE_CELLS))

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
    return Plan(ReleasedSliceTable, {**table.parameters, **told}, loss, mechanism, noisy)


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

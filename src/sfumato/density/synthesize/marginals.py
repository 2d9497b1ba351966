"""Marginals of a table, released with noise in three steps: columns, scores of pairs, pairs.

Counts of each column's cells by class; how far each pair of columns is from independence within
the classes, by which a tree of pairs is chosen; and counts of the pairs of that tree by class. Each
step depends on the noisy tables before it, and their privacy costs add up.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from sfumato.core.storage import Cells
from sfumato.core.validation import integer, one_of, optional, positive
from sfumato.density.sequential_release import Step, StepNoise, cheapest
from sfumato.density.synthesize.columns import COLUMNS, ColumnSpec
from sfumato.density.synthesize.distribution import (
    ClassMarginals,
    PairTables,
    draw_codes,
    pair_list,
    pairs_of,
    spanning_tree,
)
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest

__all__ = ["Layout", "ReleasedMarginals", "planned_marginals"]

BUDGET = Fraction(4, 10), Fraction(1, 10), Fraction(5, 10)  # fractions of epsilon, by step
MOST_CELLS = 2**27  # cells of all tables: 1 GiB
LARGEST_COUNT = 2.0**52  # of an expected count, which is rounded to an integer

Counter = Callable[[Callable[[np.ndarray], np.ndarray]], np.ndarray]


class Layout:
    """How public columns are cut into cells; `target` is the position of the class, or None."""

    def __init__(
        self, columns: tuple[ColumnSpec, ...], target: int | None, bins: int, groups: int
    ) -> None:
        self.bins, self.groups, self.target = bins, groups, target
        self.places = [at for at in range(len(columns)) if at != target]
        self.features = [columns[at] for at in self.places]
        self.classes = 1 if target is None else len(columns[target].values)
        self.sizes = tuple(each.cells(bins) for each in self.features)
        self.ordered = tuple(each.kind != "category" for each in self.features)

    @property
    def total(self) -> int:
        """Number of cells of all columns but the class."""
        return sum(self.sizes)

    @property
    def edges(self) -> int:
        """Number of pairs in a tree of the columns."""
        return len(self.features) - 1

    def check_cells(self, owner: str) -> None:
        """Raise if there is no column, or the tables would not fit into memory."""
        if not self.features:
            raise ValueError(f"{owner}: columns must have at least one besides the target.")
        pairs = self.edges * self.groups**2
        if self.classes * (self.total + pairs) + pairs_of(len(self.features)) > MOST_CELLS:
            raise ValueError(
                f"{owner}: {self.classes} classes over {len(self.features)} columns take more than "
                "2**27 counters; lower bins or groups, or leave out columns."
            )

    def split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The class of each row, 0 without a target, and the cells of its other columns."""
        if self.target is None:
            return np.zeros(len(codes), np.int64), codes
        return codes[:, self.target], codes[:, self.places]

    def marginals(self, counts: np.ndarray, variance: float) -> ClassMarginals:
        """The distribution of columns by class from noisy counts."""
        return ClassMarginals(counts, self.sizes, self.ordered, self.groups, variance)

    def column_counts(self, codes: np.ndarray) -> np.ndarray:
        """Counts by class and cell of all columns."""
        kinds, cells = self.split(codes)
        out = np.zeros((self.classes, self.total), np.int64)
        starts = np.cumsum([0, *self.sizes])
        for at, size in enumerate(self.sizes):
            found = np.bincount(kinds * size + cells[:, at], minlength=self.classes * size)
            out[:, starts[at] : starts[at + 1]] = found.reshape(self.classes, size)
        return out

    def pair_counts(
        self, codes: np.ndarray, marginals: ClassMarginals, pairs: list[tuple[int, int]]
    ) -> np.ndarray:
        """Counts of pairs of groups by class, for each of these pairs of columns."""
        kinds, cells = self.split(codes)
        groups = self.groups
        maps = marginals.group_of_cell
        coded = [maps[at][cells[:, at]] for at in range(len(self.features))]
        out = np.empty((len(pairs), self.classes, groups, groups), np.int64)
        for at, (a, b) in enumerate(pairs):
            joined = (kinds * groups + coded[a]) * groups + coded[b]
            found = np.bincount(joined, minlength=self.classes * groups**2)
            out[at] = found.reshape(self.classes, groups, groups)
        return out


def dependence_scores(layout: Layout, marginals: ClassMarginals, count: Counter) -> np.ndarray:
    """The L1 distance of every pair's counts to those of independence within the classes.

    The expected counts are integers computed from noisy tables, so a row changes the sum of
    absolute differences of a pair by at most 1.
    """
    every = pair_list(marginals.columns)
    out = np.zeros(len(every), np.int64)
    block = max(1, 2**20 // (layout.classes * layout.groups**2))
    for start in range(0, len(every), block):
        pairs = every[start : start + block]
        counts = count(partial(layout.pair_counts, marginals=marginals, pairs=pairs))
        for at, pair in enumerate(pairs):
            expected = np.rint(np.minimum(marginals.independent(*pair), LARGEST_COUNT))
            out[start + at] = np.abs(counts[at] - expected.astype(np.int64)).sum()
    return out


def filled(
    layout: Layout, first: np.ndarray, count: Counter, step_noise: StepNoise
) -> dict[str, np.ndarray]:
    """Fill the three tables; the later ones read the rows and the noisy tables before them.

    first: the counts of columns, which are not changed.
    """
    counts = step_noise.added(0, first.copy())
    marginals = layout.marginals(counts, step_noise.variance(0))
    scores = step_noise.added(1, dependence_scores(layout, marginals, count))
    edges = spanning_tree(marginals.columns, scores)
    pairs = step_noise.added(2, count(lambda codes: layout.pair_counts(codes, marginals, edges)))
    return {"_counts": counts, "_scores": scores, "_pairs": pairs}


class ReleasedMarginals(Release):
    """Noisy marginals of a table, from which rows can be drawn; made by `PrivateTableSampler`.

    The guarantee is that of its statement. Parameters: the public columns, the position of the
    target among them or None, bins and groups; noise, and its scale in each table, sigma if
    Gaussian.
    """

    columns: Annotated[tuple[ColumnSpec, ...], COLUMNS]
    target: Annotated[int | None, optional(integer(0))]
    bins: Annotated[int, integer(2, 2**12)]
    groups: Annotated[int, integer(2, 2**6)]
    noise: Annotated[str, one_of(LAWS)]
    count_scale: Annotated[float, positive]
    score_scale: Annotated[float, positive]
    pair_scale: Annotated[float, positive]
    _counts: np.ndarray
    _scores: np.ndarray
    _pairs: np.ndarray
    _of = "PrivateTableSampler"

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if self.target is not None and (
            self.target >= len(self.columns) or self.columns[self.target].kind != "category"
        ):
            raise ValueError(f"{owner}: target must be the position of a column of categories.")
        self.layout.check_cells(owner)
        if max(self.count_scale, self.score_scale, self.pair_scale) > LARGEST:
            raise ValueError(f"{owner}: scales must be at most 2**40.")

    @cached_property
    def layout(self) -> Layout:
        """How the columns are cut into cells."""
        return Layout(self.columns, self.target, self.bins, self.groups)

    def _layout(self) -> dict[str, Cells]:
        of = self.layout
        return {
            "_counts": Cells(np.int64, (of.classes, of.total)),
            "_scores": Cells(np.int64, (pairs_of(len(of.features)),)),
            "_pairs": Cells(np.int64, (of.edges, of.classes, of.groups, of.groups)),
        }

    @cached_property
    def tables(self) -> PairTables:
        """The distribution of rows that the noisy tables give."""
        variances = [
            NoiseDistribution(self.noise, scale).variance
            for scale in (self.count_scale, self.pair_scale)
        ]
        marginals = self.layout.marginals(self._counts, variances[0])
        edges = spanning_tree(marginals.columns, self._scores)
        return PairTables(marginals, edges, self._pairs, variances[1])

    def size(self) -> float:
        """The estimated number of rows, at least 1."""
        return float(self.tables.marginals.totals.sum())

    def tree(self) -> list[tuple[str, str]]:
        """The pairs (parent, child) of columns whose joint distribution is kept."""
        names = [each.name for each in self.layout.features]
        return [(names[a], names[b]) for a, b in self.tables.edges]

    def sample(self, n_samples: int, rng: np.random.Generator) -> pa.Table:
        """Draw rows; they cost no further privacy."""
        kinds, codes = draw_codes(self.tables, n_samples, rng)
        drawn = {}
        for at, each in enumerate(self.columns):
            cells = kinds if at == self.target else codes[:, self.layout.places.index(at)]
            drawn[each.name] = each.drawn(cells, self.bins, rng)
        return pa.table(drawn)


def planned_marginals(
    parameters: dict[str, Any], layout: Layout, count: Counter, request: ReleaseRequest
) -> CalibratedRelease[ReleasedMarginals]:
    """The calibrated release of the tables for this request.

    One row changes, by 1 each, a cell of every column in the first table, the score of every pair
    by at most 1 in the second, and a cell of every pair of the tree in the third, whatever the
    tables before are. So the steps compose: their pure epsilons, or zCDP rhos, sum to that of the
    request. A replaced row moves a score by up to 2, a column's counts by 1 in two cells.
    """
    counted = count(layout.column_counts)  # a source that cannot be read costs nothing
    columns, every = len(layout.features), max(pairs_of(len(layout.features)), 1)
    edges = max(layout.edges, 1)
    step_noise, loss = cheapest(
        request,
        [
            Step(BUDGET[0], columns, columns),
            Step(BUDGET[1], every, every, exchanged=4),
            Step(BUDGET[2], edges, edges),
        ],
    )
    cells = layout.classes * (layout.total + layout.edges * layout.groups**2)
    request.check_room(8 * (cells + every))

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return filled(layout, counted, count, replace(step_noise, source=source))

    first, second, third = map(float, step_noise.scales)
    symbol = "scale" if step_noise.distribution == "Laplace" else "sigma"
    mechanism = (
        f"discrete {step_noise.distribution} noise in three steps, {symbol} {first:.6g} on each of "
        f"{layout.classes} x {layout.total} counters of columns, {second:.6g} on "
        f"{pairs_of(columns)} scores of pairs, {third:.6g} on counters of the {layout.edges} pairs "
        "of a tree; an event weighs at most 1"
    )
    scales = dict(
        noise=step_noise.distribution, count_scale=first, score_scale=second, pair_scale=third
    )
    return CalibratedRelease(ReleasedMarginals, {**parameters, **scales}, loss, mechanism, noisy)

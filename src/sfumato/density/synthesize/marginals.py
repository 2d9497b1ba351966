"""Marginals of a table, released with noise in steps: classes, columns, a tree of pairs, pairs.

Counts of each class decide whether pairs stand out of their noise. If so, counts of each column's
cells by class, or of groups of cells in small classes; a tree of the pairs that are farthest from
independence within the classes; and counts of the pairs of that tree by class. If not, columns by
class have all of the rest. Each step depends on the noisy tables before it, and their privacy costs
add up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from sfumato.core.storage import Cells
from sfumato.core.validation import check_random_state, integer, one_of, optional, positive
from sfumato.density.sequential_release import Step, StepNoise, cheapest
from sfumato.density.synthesize.columns import COLUMNS, ColumnSpec
from sfumato.density.synthesize.distribution import (
    ClassMarginals,
    PairTables,
    directed,
    draw_codes,
    pair_list,
    pairs_of,
)
from sfumato.privacy.mechanisms.selection import geometric
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.noise.distribution import LAWS, NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest

__all__ = ["Layout", "ReleasedMarginals", "planned_marginals"]

CLASSES = Fraction(10, 100)  # fractions of the budget: of the counts of classes,
PAIRED = Fraction(44, 100), Fraction(9, 100), Fraction(37, 100)  # of columns, tree and pairs,
ALONE = 1 - CLASSES  # or of columns without pairs
CLEAR = 100  # deviations of a pair's counter that a class must have for pairs to help
MOST_CELLS = 2**27  # cells of all tables: 1 GiB
LARGEST_COUNT = 2.0**52  # of an expected count, which is rounded to an integer

Counter = Callable[[Callable[[np.ndarray], np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Layout:
    """How public columns are cut into cells; `target` is the position of the class, or None."""

    columns: tuple[ColumnSpec, ...]
    target: int | None
    bins: int
    groups: int

    @cached_property
    def places(self) -> list[int]:
        """Positions of the columns but the class."""
        return [at for at in range(len(self.columns)) if at != self.target]

    @cached_property
    def features(self) -> list[ColumnSpec]:
        """The columns but the class."""
        return [self.columns[at] for at in self.places]

    @property
    def classes(self) -> int:
        return 1 if self.target is None else len(self.columns[self.target].values)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return tuple(each.cells(self.bins) for each in self.features)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether the cells of each column have an order."""
        return tuple(each.kind != "category" for each in self.features)

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

    def marginals(
        self, classes: np.ndarray, counts: np.ndarray, variances: tuple[float, float]
    ) -> ClassMarginals:
        """The distribution of columns by class from noisy counts and the variances of both."""
        return ClassMarginals(classes, counts, self.sizes, self.ordered, self.groups, variances)

    def class_counts(self, codes: np.ndarray) -> np.ndarray:
        """Number of rows of each class."""
        return np.bincount(self.split(codes)[0], minlength=self.classes).astype(np.int64)

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


def noisy_tree(
    columns: int, scores: np.ndarray, scale: Fraction, source: Source
) -> list[tuple[int, int]]:
    """A spanning tree of large scores: the best pair by report noisy max, once for each edge.

    Each round takes a pair that joins two trees (Kruskal's algorithm), by fresh geometric noise, so
    that it is 2 / scale private where a row changes no score by more than 1.
    """
    pairs, group = np.array(pair_list(columns)), np.arange(columns)
    chosen: list[tuple[int, int]] = []
    for _ in range(columns - 1):
        open_pairs = np.flatnonzero(group[pairs[:, 0]] != group[pairs[:, 1]])
        noisy = scores[open_pairs] + geometric(scale, open_pairs.size, source)
        a, b = pairs[open_pairs[np.argmax(noisy)]].tolist()
        group[group == group[b]] = group[a]
        chosen.append((a, b))
    return directed(columns, chosen)


@dataclass(frozen=True)
class Plans:
    """The noise of the release with pairs (columns, tree, pairs, classes) and of that without."""

    paired: StepNoise
    alone: StepNoise

    def helps(self, classes: np.ndarray) -> bool:
        """Whether the second largest class, or the only one, is far above the noise of a pair."""
        largest = np.sort(classes)[::-1]
        size = float(largest[min(1, largest.size - 1)])
        return size >= CLEAR * math.sqrt(self.paired.variance(PAIRS))


COLUMNS_STEP, TREE, PAIRS, CLASS_STEP = range(4)


def noisy_columns(
    layout: Layout,
    classes: np.ndarray,
    first: np.ndarray,
    noise: StepNoise,
    variances: tuple[float, float],
) -> np.ndarray:
    """Noisy counts of columns: of cells in the large classes, then of groups in the small ones.

    Groups follow from the noisy counts of the large classes. A row is in one class, so it changes
    one cell of each column, or one group.
    """
    counts = np.zeros_like(first)
    fine = layout.marginals(classes, counts, variances).fine
    counts[fine] = noise.added(COLUMNS_STEP, first[fine])
    merged, used = layout.marginals(classes, counts, variances).by_groups(first[~fine])
    small = np.zeros_like(merged)
    small[:, used] = noise.added(COLUMNS_STEP, np.ascontiguousarray(merged[:, used]))
    counts[~fine] = small
    return counts


def filled(
    layout: Layout, first: np.ndarray, count: Counter, plans: Plans, source: Source
) -> dict[str, np.ndarray]:
    """Fill the tables; the later ones read the rows and the noisy tables before them.

    first: the counts of columns, which are not changed.
    """
    paired, alone = (replace(each, source=source) for each in (plans.paired, plans.alone))
    classes = paired.added(CLASS_STEP, count(layout.class_counts))
    edges = np.empty((0, 2), np.int64)
    pairs = np.empty((0, layout.classes, layout.groups, layout.groups), np.int64)
    if not layout.edges or not plans.helps(classes):
        counts = noisy_columns(
            layout, classes, first, alone, (alone.variance(1), alone.variance(0))
        )
        return {"_classes": classes, "_counts": counts, "_edges": edges, "_pairs": pairs}
    variances = paired.variance(CLASS_STEP), paired.variance(COLUMNS_STEP)
    counts = noisy_columns(layout, classes, first, paired, variances)
    marginals = layout.marginals(classes, counts, variances)
    scores = dependence_scores(layout, marginals, count)
    tree = noisy_tree(marginals.columns, scores, paired.scales[TREE], source)
    pairs = paired.added(PAIRS, count(lambda codes: layout.pair_counts(codes, marginals, tree)))
    return {
        "_classes": classes,
        "_counts": counts,
        "_edges": np.array(tree, np.int64),
        "_pairs": pairs,
    }


class ReleasedMarginals(Release):
    """Noisy marginals of a table, from which rows can be drawn; made by `PrivateTableSampler`.

    The guarantee is that of its statement. Parameters: the public columns, the position of the
    target among them or None, bins and groups; noise, and its scale in each table, sigma if
    Gaussian: of counts of classes, of columns if there are pairs and if there are none, of pairs.
    """

    columns: Annotated[tuple[ColumnSpec, ...], COLUMNS]
    target: Annotated[int | None, optional(integer(0))]
    bins: Annotated[int, integer(2, 2**12)]
    groups: Annotated[int, integer(2, 2**6)]
    noise: Annotated[str, one_of(LAWS)]
    class_scale: Annotated[float, positive]
    paired_scale: Annotated[float, positive]
    alone_scale: Annotated[float, positive]
    pair_scale: Annotated[float, positive]
    _classes: np.ndarray
    _counts: np.ndarray
    _edges: np.ndarray
    _pairs: np.ndarray
    version = 3  # small classes have counts of fewer groups where noise is large
    _of = "PrivateTableSampler"

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if self.target is not None and (
            self.target >= len(self.columns)
            or self.columns[self.target].kind != "category"
            or self.columns[self.target].nullable
        ):
            raise ValueError(f"{owner}: target must be the position of a column of categories.")
        self._cut.check_cells(owner)
        if max(self.class_scale, self.paired_scale, self.alone_scale, self.pair_scale) > LARGEST:
            raise ValueError(f"{owner}: scales must be at most 2**40.")

    @cached_property
    def _cut(self) -> Layout:
        """How the columns are cut into cells."""
        return Layout(self.columns, self.target, self.bins, self.groups)

    def _layout(self) -> dict[str, Cells]:
        of = self._cut
        return {
            "_classes": Cells(np.int64, (of.classes,)),
            "_counts": Cells(np.int64, (of.classes, of.total)),
            "_edges": Cells(np.int64, (-1, 2)),
            "_pairs": Cells(np.int64, (-1, of.classes, of.groups, of.groups)),
        }

    def _check_state(self) -> None:
        edges, columns = self._edges.tolist(), len(self._cut.features)
        if len(edges) != len(self._pairs) or len(edges) not in (0, columns - 1):
            raise ValueError("there are not as many pairs as edges of a tree.")
        inside = all(0 <= a < columns and 0 <= b < columns for a, b in edges)
        if not inside or (edges and directed(columns, edges) != [(a, b) for a, b in edges]):
            raise ValueError("the edges are no tree.")

    @cached_property
    def _tables(self) -> PairTables:
        """The distribution of rows that the noisy tables give."""
        column_scale = self.paired_scale if len(self._edges) else self.alone_scale
        classes, columns, pairs = (
            NoiseDistribution(self.noise, scale).variance
            for scale in (self.class_scale, column_scale, self.pair_scale)
        )
        marginals = self._cut.marginals(self._classes, self._counts, (classes, columns))
        edges = [(a, b) for a, b in self._edges.tolist()]
        return PairTables(marginals, edges, self._pairs, pairs)

    def size(self) -> float:
        """Estimate the number of rows.

        Returns
        -------
        float
            At least 1.
        """
        return float(self._tables.marginals.totals.sum())

    def tree(self) -> list[tuple[str, str]]:
        """Return the pairs of columns whose joint distribution is released.

        Returns
        -------
        list of (str, str)
            Names of parent and child, parents before their children.
        """
        names = [each.name for each in self._cut.features]
        return [(names[a], names[b]) for a, b in self._tables.edges]

    def sample(self, n_samples: int, random_state: Any) -> pa.Table:
        """Draw rows, which costs no further privacy.

        Parameters
        ----------
        n_samples : int
            Number of rows, from 0 up.
        random_state : int, RandomState, Generator or None
            Seed of the draws; None for fresh randomness.

        Returns
        -------
        pyarrow.Table
            Rows with the columns as described.
        """
        owner = type(self).__name__
        rng = check_random_state(owner, random_state)
        kinds, codes = draw_codes(
            self._tables, integer(0).check(owner, "n_samples", n_samples), rng
        )
        drawn = {}
        for at, each in enumerate(self.columns):
            cells = kinds if at == self.target else codes[:, self._cut.places.index(at)]
            drawn[each.name] = each.drawn(cells, self.bins, rng)
        return pa.table(drawn)


def planned_marginals(
    parameters: dict[str, Any], layout: Layout, count: Counter, request: ReleaseRequest
) -> CalibratedRelease[ReleasedMarginals]:
    """The calibrated release of the tables for this request.

    One row changes, by 1 each, the count of a class, a cell of every column, the score of every
    pair by at most 1, and a cell of every pair of the tree, whatever came out before. Each edge of
    the tree is chosen by a report noisy max of scale s, which is pure (2 / s)-private and so
    (2 / s**2)-zCDP: as a Laplace step of sensitivity 2, a Gaussian one of squared sensitivity 4.
    So the steps compose, in either plan: their pure epsilons, or zCDP rhos, sum to that of the
    request. A replaced row moves a score by up to 2, and a count by 1 in two cells.
    """
    counted = count(layout.column_counts)  # a source that cannot be read costs nothing
    columns, edges = len(layout.features), max(layout.edges, 1)
    of_classes = Step(CLASSES, 1, 1)
    paired, loss = cheapest(
        request,
        [
            Step(PAIRED[0], columns, columns),
            Step(PAIRED[1], 2 * edges, 4 * edges, exchanged=4),
            Step(PAIRED[2], edges, edges),
            of_classes,
        ],
    )
    steps = [Step(ALONE, columns, columns), of_classes]
    alone, other = cheapest(request, steps, only=paired.distribution)
    loss = max(loss, other, key=lambda each: (each.epsilon, each.rho))
    cells = layout.classes * (1 + layout.total + layout.edges * layout.groups**2)
    request.check_room(8 * cells)
    plans = Plans(paired, alone)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return filled(layout, counted, count, plans, source)

    scales = dict(
        noise=paired.distribution,
        class_scale=float(paired.scales[CLASS_STEP]),
        paired_scale=float(paired.scales[COLUMNS_STEP]),
        alone_scale=float(alone.scales[COLUMNS_STEP]),
        pair_scale=float(paired.scales[PAIRS]),
    )
    symbol = "scale" if paired.distribution == "Laplace" else "sigma"
    mechanism = (
        f"discrete {paired.distribution} noise, {symbol} {scales['class_scale']:.6g} on counts of "
        f"{layout.classes} classes; if these are small, {scales['alone_scale']:.6g} on each of "
        f"{layout.classes} x {layout.total} counters of columns, else "
        f"{scales['paired_scale']:.6g} on these, a tree of {layout.edges} pairs chosen by report "
        f"noisy max of scale {float(paired.scales[TREE]):.6g}, and {scales['pair_scale']:.6g} on "
        "counters of its pairs; small classes count groups of cells, which follow from the noisy "
        "counters of large ones; an event weighs at most 1"
    )
    return CalibratedRelease(ReleasedMarginals, {**parameters, **scales}, loss, mechanism, noisy)

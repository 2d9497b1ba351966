"""A distribution of rows from noisy marginals: classes, columns by class, and a tree of pairs.

Everything here is computed from noisy tables and public numbers, so it costs no privacy.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.density.synthesize.smoothing import fitted_to_margins, on_simplex, shrunk

__all__ = ["ClassMarginals", "PairTables", "directed", "draw_codes", "pair_list", "pairs_of"]

LEAST = 1e-9  # probability of all cells of a column, spread evenly over those that have none
DETAIL = 40  # deviations of a counter that a class must have for counts of cells,
PART = 0.5  # or this part of the largest class
MANY = 4  # cells a group that an ordered column must have for groups to have less noise
FEWEST, CLEAR = 6, 2  # groups of a small class: at least; deviations of a counter in each of them


def pairs_of(columns: int) -> int:
    """Number of pairs of columns."""
    return columns * (columns - 1) // 2


def pair_list(columns: int) -> list[tuple[int, int]]:
    """All pairs of columns, in the order of the scores."""
    return [(a, b) for a in range(columns) for b in range(a + 1, columns)]


def directed(columns: int, pairs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The edges (parent, child) of a tree directed away from column 0, parents before children.

    >>> directed(3, [(0, 2), (1, 2)])
    [(0, 2), (2, 1)]
    """
    beside: list[list[int]] = [[] for _ in range(columns)]
    for a, b in pairs:
        beside[a].append(b)
        beside[b].append(a)
    edges: list[tuple[int, int]] = []
    found = [0]
    for parent in found:
        for child in sorted(set(beside[parent]) - set(found)):
            edges.append((parent, child))
            found.append(child)
    return edges


@dataclass(frozen=True)
class ClassMarginals:
    """Columns by class, from noisy counts of their cells.

    classes: noisy number of rows of each class; counts: classes by the cells of all columns, one
    column after the other, where small classes have counts of groups of cells in the first cells;
    sizes: cells of each column; ordered: whether the cells of a column have an order; groups: parts
    that a column is merged into for pairs and in small classes, at most; variances: of the noise of
    a count in `classes` and in `counts`.
    """

    classes: np.ndarray
    counts: np.ndarray
    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    groups: int
    variances: tuple[float, float]

    @property
    def columns(self) -> int:
        return len(self.sizes)

    @property
    def variance(self) -> float:
        """Variance of the noise of a cell's count."""
        return self.variances[1]

    @cached_property
    def fine(self) -> np.ndarray:
        """Of each class, whether it is large enough for counts of cells, and not of groups."""
        largest = self.classes.max()
        clear = self.classes >= min(DETAIL * math.sqrt(self.variance), PART * largest)
        return np.asarray(clear | (self.classes == largest))

    @cached_property
    def small_groups(self) -> int:
        """Groups of the cells of a column in small classes: fewer where noise would hide them.

        The largest of these classes, less a deviation of its noise, has in the mean group about two
        deviations of a counter's noise.
        """
        largest = float(self.classes[~self.fine].max(initial=0))
        likely = largest - math.sqrt(self.variances[0])
        clear = likely / (CLEAR * math.sqrt(max(self.variance, 1e-9)))
        return min(self.groups, max(FEWEST, int(clear)))

    def _merged(self, at: int) -> bool:
        """Whether small classes have counts of groups of the cells of this column."""
        return self.ordered[at] and self.sizes[at] > MANY * self.small_groups

    @cached_property
    def _rows(self) -> list[np.ndarray]:
        """Of each column, the classes that have counts of its cells."""
        parts = enumerate(self._parts)
        return [part[self.fine] if self._merged(at) else part for at, part in parts]

    @cached_property
    def _coarse(self) -> list[np.ndarray]:
        """Of each column, the group of each cell in order as small classes are counted.

        Groups are neither of much probability nor wide: a small class may be in the tails.
        """
        return [
            _grouped((each + 1 / each.size) / 2, self.small_groups)
            if self._merged(at)
            else np.arange(each.size)
            for at, each in enumerate(self._together)
        ]

    @cached_property
    def _parts(self) -> list[np.ndarray]:
        ends = np.cumsum(self.sizes)[:-1]
        return [each.astype(np.float64) for each in np.split(self.counts, ends, axis=1)]

    @cached_property
    def totals(self) -> np.ndarray:
        """Estimated number of rows of each class, at least 1 in all, and 0 where noise hides it.

        Every column counts all rows; a column of few cells has less noise in its sum.
        """
        sizes = np.array(self.sizes)[:, None]
        merged = np.array([self._merged(at) for at in range(self.columns)])[:, None]
        counted = np.where(merged & ~self.fine, self.small_groups, sizes)
        first = np.full((1, self.fine.size), self.variances[0])
        weights = 1 / np.maximum(np.vstack([first, counted * self.variance]), 1e-9)
        sums = np.array([self.classes, *(part.sum(axis=1) for part in self._parts)])
        mean = (weights * sums).sum(axis=0) / weights.sum(axis=0)
        size = max(float(mean.sum()), 1.0)
        return np.asarray(on_simplex(mean / size) * size)

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """The cells of each column in order: as they are, or categories by class and frequency."""
        return [
            np.arange(part.shape[1]) if ordered else _by_class(part)
            for part, ordered in zip(self._parts, self.ordered, strict=True)
        ]

    @cached_property
    def probabilities(self) -> list[np.ndarray]:
        """Of each column, the probability of each cell, in order, by class."""
        parts = zip(self._parts, self.orders, self._together, self._coarse, strict=True)
        return [self._estimated(*each) for each in parts]

    @cached_property
    def _together(self) -> list[np.ndarray]:
        """Of each column, the probability of each cell, in order, in all classes with cells.

        Groups follow from it, before small classes are counted and after, so it is of no other.
        """
        found = []
        for rows, order in zip(self._rows, self.orders, strict=True):
            whole = len(rows) == len(self.classes)
            size = float(self.totals.sum() if whole else rows.sum())
            sums = shrunk(rows.sum(axis=0)[order], len(rows) * self.variance)
            found.append(on_simplex(sums / max(size, 1.0)))
        return found

    def by_groups(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts of groups in place of those of cells, and which cells they are in."""
        out, used, start = np.zeros_like(counts), np.zeros(counts.shape[1], bool), 0
        columns = enumerate(zip(self.sizes, self.orders, self._coarse, strict=True))
        for at, (size, order, groups) in columns:
            merged, place = self._merged(at), groups if self._merged(at) else order
            for row, found in zip(counts, out, strict=True):
                cells = row[start : start + size][order]
                np.add.at(found[start : start + size], place, cells)
            used[start : start + (self.small_groups if merged else size)] = True
            start += size
        return out, used

    def _estimated(
        self, part: np.ndarray, order: np.ndarray, together: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """Cells by class: all classes together first, then how each differs from them."""
        base = np.bincount(groups, together)
        even = together + LEAST / together.size  # within a group that has no probability
        inside = even / np.bincount(groups, even)[groups]
        out = np.empty_like(part)
        for k, (row, total) in enumerate(zip(part, self.totals, strict=True)):
            if self.fine[k] or groups.size == base.size:
                out[k] = self._own(row[order], together, total, len(part))
            else:
                out[k] = self._own(row[: base.size], base, total, len(part))[groups] * inside
        return out

    def _own(self, row: np.ndarray, together: np.ndarray, total: float, classes: int) -> np.ndarray:
        """The probabilities of one class, from its counts and the probabilities in all."""
        if total <= 0:
            return together
        expected = together * total
        own = expected + shrunk(row - expected, self.variance) if classes > 1 else expected
        return on_simplex(own / total)

    @cached_property
    def cuts(self) -> list[np.ndarray]:
        """Of each column, the group of each cell in order: parts of about equal probability."""
        return [_grouped(self._mean(each), self.groups) for each in self.probabilities]

    def _mean(self, probabilities: np.ndarray) -> np.ndarray:
        return np.asarray(self.totals @ probabilities / self.totals.sum())

    @cached_property
    def group_of_cell(self) -> list[np.ndarray]:
        """Of each column, the group of each cell as it is counted."""
        found = []
        for order, cut in zip(self.orders, self.cuts, strict=True):
            groups = np.empty(cut.size, np.int64)
            groups[order] = cut
            found.append(groups)
        return found

    @cached_property
    def group_probabilities(self) -> list[np.ndarray]:
        """Of each column, the probability of each group by class."""
        return [
            np.stack([np.bincount(cut, row, self.groups) for row in each])
            for cut, each in zip(self.cuts, self.probabilities, strict=True)
        ]

    def independent(self, a: int, b: int) -> np.ndarray:
        """Expected counts of the groups of two columns by class, were they independent in each."""
        one, two = self.group_probabilities[a], self.group_probabilities[b]
        return np.asarray(self.totals[:, None, None] * one[:, :, None] * two[:, None, :])


def _by_class(part: np.ndarray) -> np.ndarray:
    """Order of categories: by the noisy fraction of the first class, or by frequency."""
    together = np.maximum(part.sum(axis=0), 1.0)
    return np.argsort(part[0] / together if len(part) > 1 else -together, kind="stable")


def _grouped(probabilities: np.ndarray, groups: int) -> np.ndarray:
    """The group of each cell: its own, or that of the middle of its probability below all."""
    if probabilities.size <= groups:
        return np.arange(probabilities.size)
    middles = np.cumsum(probabilities) - probabilities / 2
    return np.minimum((middles * groups).astype(np.int64), groups - 1)


@dataclass(frozen=True)
class PairTables:
    """The tree of pairs, and the probability of a child's group given its parent's and the class.

    Without edges, columns are independent within each class.

    counts: edges by classes by groups of the parent by groups of the child; variance: of the noise
    of one count.
    """

    marginals: ClassMarginals
    edges: list[tuple[int, int]]
    counts: np.ndarray
    variance: float

    @cached_property
    def conditionals(self) -> list[np.ndarray]:
        """Of each edge: class, group of the parent, cumulative probabilities of the child."""
        return [
            self._conditional(edge, table.astype(np.float64))
            for edge, table in zip(self.edges, self.counts, strict=True)
        ]

    def _conditional(self, edge: tuple[int, int], counts: np.ndarray) -> np.ndarray:
        """What a pair adds to independence: in all classes together, then in each of them."""
        of = self.marginals
        expected, classes = of.independent(*edge), len(counts)
        together = shrunk((counts - expected).sum(axis=0), classes * self.variance)
        parent, child = (of.group_probabilities[each] for each in edge)
        out = np.empty_like(counts)
        for k, total in enumerate(of.totals):
            own = expected[k] + together * total / of.totals.sum()
            if classes > 1:
                own += shrunk(counts[k] - own, self.variance)
            fitted = fitted_to_margins(own / max(total, 1.0), parent[k], child[k])
            rows = fitted.sum(axis=1, keepdims=True)
            out[k] = np.where(rows > 0, fitted / np.maximum(rows, 1e-300), child[k])
        return np.cumsum(out, axis=2)


def draw_codes(
    tables: PairTables, size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows: the class of each, and the cell of each of its columns, parents first."""
    of = tables.marginals
    kinds = _chosen(np.cumsum(of.totals / of.totals.sum()), rng.random(size))
    codes = np.empty((size, of.columns), np.int64, order="F")
    groups: dict[int, np.ndarray] = {}
    for column, chosen in _group_draws(tables, kinds, groups, rng):
        groups[column] = chosen
        codes[:, column] = _cells(of, column, kinds, chosen, rng)
    return kinds, codes


def _group_draws(
    tables: PairTables, kinds: np.ndarray, groups: dict[int, np.ndarray], rng: np.random.Generator
) -> Iterator[tuple[int, np.ndarray]]:
    """The group of each row in each column, given the class and the group of the parent."""
    of, children = tables.marginals, {child for _, child in tables.edges}
    for column in range(of.columns):
        if column not in children:
            yield column, _by_row(np.cumsum(of.group_probabilities[column], axis=1), kinds, rng)
    for (parent, child), table in zip(tables.edges, tables.conditionals, strict=True):
        width = table.shape[1]
        yield child, _by_row(table.reshape(-1, width), kinds * width + groups[parent], rng)


def _by_row(cumulative: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a column of each of these rows of cumulative probabilities, each of them up to 1."""
    height, width = cumulative.shape
    # One sorted list: row r covers the numbers from r to r + 1.
    ends = np.minimum(cumulative, 1.0)
    ends[:, -1] = 1.0
    flat = (ends + np.arange(height)[:, None]).reshape(-1)
    found = np.searchsorted(flat, rows + rng.random(rows.size), side="right")
    return np.asarray(np.minimum(found - rows * width, width - 1))


def _chosen(cumulative: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    found = np.searchsorted(cumulative, uniform, side="right")
    return np.asarray(np.minimum(found, cumulative.size - 1))


def _cells(
    of: ClassMarginals, column: int, kinds: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw a cell of each row's group by the probabilities of its class."""
    probabilities, cut = of.probabilities[column], of.cuts[column]
    together = np.maximum(of._mean(probabilities), 1e-300)
    rows = np.zeros((len(probabilities), of.groups, cut.size))
    for k, each in enumerate(probabilities):
        rows[k, cut, np.arange(cut.size)] = each + 1e-12 * together
    flat = rows.reshape(-1, cut.size)
    sums = flat.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(flat / np.maximum(sums, 1e-300), axis=1)
    place = _by_row(cumulative, kinds * of.groups + groups, rng)
    return np.asarray(of.orders[column][place])

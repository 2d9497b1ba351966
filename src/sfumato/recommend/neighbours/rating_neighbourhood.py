"""Ratings of all users with lists of similar items or users, and predictions from them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sfumato.kernels.recommend import rating_neighbours as kernels
from sfumato.recommend.implicit.item_weights import SparseWeights
from sfumato.recommend.neighbours.similarity import RatingVectors, SimilarityRule
from sfumato.recommend.ratings.baseline import Baseline
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["RatingNeighbourhood", "rating_vectors", "turned"]

LISTED = 20  # stored neighbours for each that counts in a prediction
SAMPLED = 1024  # rows some of whose ratings are held out to estimate the slope
HELD_OUT = 10  # every so many ratings of these rows is held out
Contexts = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class RatingNeighbourhood:
    """What `RatingNeighbours` learns; rows of `lists` are items or users, as `by` says.

    A prediction is the baseline of the pair plus `slope` times the weighted mean of what its
    neighbours depart from the baseline.
    """

    rated: RatedRows
    baseline: Baseline
    lists: SparseWeights
    settings: dict[str, Any]
    slope: float = 1.0

    @classmethod
    def learned(cls, rated: RatedRows, settings: dict[str, Any]) -> Self:
        """Compute baseline, similarities and slope."""
        slope = settings["slope"]
        if slope is None:
            slope = _estimated_slope(rated, settings)
        baseline = Baseline.of(rated)
        vectors = rating_vectors(rated, baseline, settings)
        lists = vectors.all_nearest(_stored(settings), settings["search"], settings["random_state"])
        return cls(rated, baseline, lists, settings, float(slope))

    @property
    def by(self) -> str:
        """What is compared: "items" or "users"."""
        return str(self.settings["by"])

    @property
    def _average(self) -> bool:
        return bool(self.settings["prediction"] == "average")

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return scores of pairs of a user row and an item column, -1 for unknown ones."""
        base = self.baseline.at(rows, columns)
        pairs = (columns, rows) if self.by == "items" else (rows, columns)
        return self._foretold(*pairs, self.contexts, base)

    def table(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of all items for user rows, where users are compared."""
        base = self.baseline.at(rows[:, None], np.arange(self.rated.items))
        return self._scores_of(self.lists, rows, base)

    def folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        """Return the scores of all items for a new user with these ratings."""
        level = self.baseline.mean + self.baseline.user_bias(positions, ratings)
        base = np.asarray(level + self.baseline.items)
        residuals, starts = ratings - base[positions], np.array([0, positions.size])
        if self.by == "items":
            own = starts, positions, ratings if self._average else residuals
            every = np.arange(base.size), np.zeros(base.size, np.int64)
            return self._foretold(*every, own, base)
        values = self._vectors.rule.values(starts, ratings, residuals.astype(np.float32))
        near = self._vectors.nearest_to(positions, values, _stored(self.settings))
        return np.asarray(self._scores_of(near, np.zeros(1, np.int64), base[None])[0])

    def listed(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows most similar to one, best first, and their similarities."""
        mine = slice(self.lists.ends[row], self.lists.ends[row + 1])
        return self.lists.columns[mine], self.lists.values[mine]

    def parts(
        self, row: int, column: int
    ) -> tuple[dict[str, float], list[tuple[int, float, float]]]:
        """Return the terms of the baseline, and row, similarity and contribution of neighbours."""
        base = self.baseline
        terms = {
            "mean": base.mean,
            "user_bias": float(base.users[row]) if row >= 0 else 0.0,
            "item_bias": float(base.items[column]) if column >= 0 else 0.0,
        }
        mine, other = (column, row) if self.by == "items" else (row, column)
        if mine < 0 or other < 0:
            return terms, []
        most, exponent, damping = self._weighing
        ends, holders, values = self.contexts
        those = slice(ends[other], ends[other + 1])
        over = values[those] - (sum(terms.values()) if self._average else 0.0)
        own = dict(zip(holders[those].tolist(), over.tolist(), strict=True))
        listed = (each.tolist() for each in self.listed(mine))
        chosen = [(at, near) for at, near in zip(*listed, strict=True) if at in own][:most]
        scale = self.slope / max(damping + sum(near**exponent for _, near in chosen), 1e-300)
        return terms, [(at, near, scale * near**exponent * own[at]) for at, near in chosen]

    @cached_property
    def _vectors(self) -> RatingVectors:
        """Rows that a new user is compared with."""
        return rating_vectors(self.rated, self.baseline, self.settings)

    @cached_property
    def _values(self) -> np.ndarray:
        """Value of each rating whose weighted mean is predicted."""
        return self.rated.ratings if self._average else self.baseline.residuals(self.rated)

    @cached_property
    def contexts(self) -> Contexts:
        """Items that each user rated, or users who rated each item, with their values."""
        if self.by == "items":
            return self.rated.starts, self.rated.positions, self._values
        return turned(self.rated, self._values)

    @property
    def _weighing(self) -> tuple[int, float, float]:
        given = self.settings
        return given["neighbours"], float(given["exponent"]), float(given["damping"])

    def _foretold(
        self, rows: np.ndarray, columns: np.ndarray, contexts: Contexts, base: np.ndarray
    ) -> np.ndarray:
        """Return scores of pairs of a row, which has a list of neighbours, and a column."""
        out, order = self._begun(base), np.argsort(columns, kind="stable")
        compared = self.rated.items if self.by == "items" else len(self.rated.users)
        lists = self.lists.ends, self.lists.columns, self.lists.values
        here = np.zeros(compared, np.int64)
        kernels.foretell(order, rows, columns, *contexts, *lists, *self._weighing, here, out)
        return self._finished(out, base)

    def _scores_of(self, lists: SparseWeights, rows: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return scores of all items from lists of similar users."""
        out, near = self._begun(base), (lists.ends, lists.columns, lists.values)
        users = self.rated.starts, self.rated.positions, self._values
        kernels.foretell_rows(rows, *near, *users, *self._weighing, out)
        return self._finished(out, base)

    def _begun(self, base: np.ndarray) -> np.ndarray:
        """Return what neighbours are averaged with, by `damping`."""
        return base.copy() if self._average else np.zeros_like(base)

    def _finished(self, out: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Return scores from averages over neighbours."""
        over = out - base if self._average else out
        return np.asarray(base + self.slope * over)


def rating_vectors(rated: RatedRows, baseline: Baseline, settings: dict[str, Any]) -> RatingVectors:
    """Return the rows that are compared: users, or items."""
    rule = SimilarityRule.of(settings)
    residuals = baseline.residuals(rated) if rule.metric == "residual" else None
    if settings["by"] == "users":
        values = rule.values(rated.starts, rated.ratings, residuals)
        return RatingVectors(rule, rated.starts, rated.positions, values, rated.items)
    starts, users, given = turned(rated, rated.ratings if residuals is None else residuals)
    return RatingVectors(rule, starts, users, rule.values(starts, given, given), len(rated.users))


def turned(rated: RatedRows, values: np.ndarray) -> Contexts:
    """Return the users of each item, with their values."""
    shape = len(rated.users), rated.items
    turned = sp.csr_matrix((values, rated.positions, rated.starts), shape).tocsc()
    return turned.indptr.astype(np.int64), turned.indices, turned.data


def _stored(settings: dict[str, Any]) -> int:
    given = settings["stored"]
    return int(LISTED * settings["neighbours"] if given is None else given)


def _estimated_slope(rated: RatedRows, settings: dict[str, Any]) -> float:
    """Return the slope of held-out residuals on what neighbours add, one standard error below.

    Some ratings of a sample of rows are held out; baseline and similarities are those of the
    others. Where few ratings can be foretold, or none, predictions stay with the baseline.
    """
    rng = np.random.default_rng(settings["random_state"])
    by_items = settings["by"] == "items"
    compared = rated.items if by_items else len(rated.users)
    sampled = np.sort(rng.permutation(compared)[:SAMPLED])
    own = rated.positions if by_items else rated.user_rows
    held_out = np.isin(own, sampled) & (rng.random(len(rated)) < 1 / HELD_OUT)
    rest = rated.filtered(~held_out)
    if not held_out.any() or not len(rest):
        return 0.0
    baseline = Baseline.of(rest)
    lists = rating_vectors(rest, baseline, settings).nearest_rows(sampled, _stored(settings))
    users, items = rated.user_rows[held_out], rated.positions[held_out]
    learned = RatingNeighbourhood(rest, baseline, lists, settings)
    base = baseline.at(users, items)
    rows = np.searchsorted(sampled, own[held_out])
    pairs = rows, users if by_items else items
    added = learned._foretold(*pairs, learned.contexts, base) - base
    products, squares = added * (rated.ratings[held_out] - base), float(added @ added)
    if not squares:
        return 0.0
    slope = (float(products.sum()) - float(products @ products) ** 0.5) / squares
    return float(min(max(slope, 0.0), 1.0))

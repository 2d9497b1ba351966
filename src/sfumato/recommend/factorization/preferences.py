"""Preferences: item counts as the prior of rankings and the distribution of negatives; fold-in."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.core.storage import Cells
from sfumato.kernels.recommend import sgd_ranking
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue

__all__ = [
    "CELLS_PER_NUMBER",
    "ItemPopularity",
    "Negatives",
    "least_count",
    "preference_vector",
    "shrinkages",
    "trust",
]

PACE = 2.0  # a softmax pulls less than an error in stars: chosen on validation data
DRAWN = 0.1  # penalty of a drawn item beside that of a row's own: it is drawn far more often
UNSEEN = 0.5  # added to every count, so that an item without one has a logarithm
FEW = 5.0  # rows of a user at which half of what was learned is believed
CELLS_PER_NUMBER = 2  # of a sketch, for each number of an entity: fewer collide more
MOST_RARE = 6  # largest count from which on a small sketch learns an item's vector
STEPS = 4  # Newton steps of a fold-in


def shrinkages(rate: float, regularization: float) -> np.ndarray:
    """Return step, and the shrinkage of users, of their items and of drawn items, as kernels do."""
    step = PACE * rate
    penalties = -step * regularization * np.array([1.0, 1.0, DRAWN])
    return np.array([step, *penalties], np.float32)


def trust(rows: np.ndarray) -> np.ndarray:
    """Return the weight of user vectors, as a column, that were learned from so many rows each.

    With few rows a vector is mostly noise, which costs more than popularity alone; with none it is
    not read, so that an unknown user gets the items by popularity.
    """
    known = rows.astype(np.float32)[:, None]
    return np.asarray(known / (known + np.float32(FEW)))


def least_count(counts: np.ndarray, users: int, cells: float, factors: int) -> tuple[int, float]:
    """Return the count from which on items get vectors in so many cells, and cells per vector.

    Vectors of rare items collide with others and say little: in a table too small for all factors
    of each user and item they are left out, at most those of half of the rows.

    >>> least_count(np.array([9, 5, 1, 1]), users=2, cells=256.0, factors=32)
    (2, 64.0)
    """
    for least in range(1, MOST_RARE + 1):
        learned = counts >= least
        if least > 1 and 2 * counts[learned].sum() < counts.sum():
            break
        found = least, cells / (users + int(learned.sum()))
        if found[1] >= factors * CELLS_PER_NUMBER:
            break
    return found


class Negatives(NamedTuple):
    """Alias table over the catalogue, its items as the codes that kernels read.

    Bucket j stands for the item with code first[j] below cut[j] of 2**32, else for second[j].
    """

    cut: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def of_rows(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """Return the codes of all items that a pass over these rows will draw."""
        out = np.empty((rows.size, sgd_ranking.NEGATIVES), self.first.dtype)
        sgd_ranking.draw(rows, np.uint64(seed), *self, out)
        return out.reshape(-1)


class ItemPopularity:
    """How often each item of a catalogue was used.

    It is the prior of a ranking, log P(item), and the distribution from which negatives are drawn.
    The alias table is built anew once the counts have grown by an eighth, or by an eighth of the
    catalogue's size, so that a stream of single events does not pay for it each time.

    >>> popular = ItemPopularity(Catalogue(["tea", "milk"]))
    >>> popular.add(popular.positions(np.array(["tea", "tea", "rum"], object)))
    >>> popular.counts, popular.log_probabilities(np.array([0, 1, -1])).round(2)
    (array([2, 0]), array([-0.18, -1.79, -1.79], dtype=float32))
    """

    def __init__(self, catalogue: Catalogue, counts: np.ndarray | None = None) -> None:
        self.catalogue = catalogue
        self.counts = np.zeros(len(catalogue), np.int64) if counts is None else counts
        self.total = int(self.counts.sum())
        self._sorted = SortedCatalogue.of(catalogue)
        self._negatives: Negatives | None = None
        self._built = 0

    @staticmethod
    def layout() -> dict[str, Cells]:
        """Describe the counts in a file."""
        return {"counts": Cells(np.int64, (-1,))}

    @classmethod
    def restored(cls, catalogue: Catalogue, counts: np.ndarray) -> "ItemPopularity":
        """Return popularity from a file's counts; raise ValueError if they do not fit."""
        if counts.shape != (len(catalogue),) or (counts < 0).any() or counts.max() > 2**40:
            raise ValueError("counts must be from 0 to 2**40, one for each item of the catalogue.")
        return cls(catalogue, counts)

    def copy(self) -> "ItemPopularity":
        """Return the same counts in an array of their own."""
        twin = ItemPopularity(self.catalogue, self.counts.copy())
        twin._negatives, twin._built = self._negatives, self._built
        return twin

    def moved(self, catalogue: Catalogue) -> "ItemPopularity":
        """Return the counts of another catalogue: 0 for items that are not in this one."""
        found = self.positions(catalogue.ids)
        return ItemPopularity(catalogue, np.where(found >= 0, self.counts[found], 0))

    def positions(self, items: np.ndarray) -> np.ndarray:
        """Return the position of each item in the catalogue, or -1."""
        return self._sorted.positions(items)

    def add(self, positions: np.ndarray, times: int = 1) -> None:
        """Count these items, leaving out positions of -1; `times=-1` takes it back."""
        found = positions[positions >= 0]
        if 8 * found.size < self.counts.size:
            np.add.at(self.counts, found, times)
        else:
            self.counts += times * np.bincount(found, minlength=self.counts.size)
        self.total += times * found.size

    def log_probabilities(self, positions: np.ndarray) -> np.ndarray:
        """Return log P(item) of each position, that of an item never used for -1; float32."""
        whole = self.total + UNSEEN * self.counts.size
        counts = np.where(positions >= 0, self.counts[positions], 0)
        return np.log((counts + UNSEEN) / whole).astype(np.float32)

    def log_counts(self, positions: np.ndarray) -> np.ndarray:
        """Return log P(item) + `log_total`, which no other item's count changes; float32."""
        counts = np.where(positions >= 0, self.counts[positions], 0)
        return np.log(counts + UNSEEN).astype(np.float32)

    @property
    def log_total(self) -> float:
        """Logarithm of what counts are divided by, to be probabilities."""
        return math.log(self.total + UNSEEN * self.counts.size)

    def stale(self) -> bool:
        """Return whether the table of negatives is missing, or counts have grown enough."""
        grown = self.total - self._built
        return self._negatives is None or grown * 8 > min(self._built, self.counts.size)

    def build(self, codes: np.ndarray, least: int = 1) -> None:
        """Make the alias table of the items with these codes that were used `least` times or more.

        Items with a code below 0 are left out; if no item is left, there is no table.
        """
        counts = np.where((codes >= 0) & (self.counts >= least), self.counts, 0)
        self._built, self._negatives = self.total, None
        if counts.any():
            cut, other = np.empty(counts.size, np.uint64), np.empty(counts.size, np.int64)
            sgd_ranking.alias(counts, cut, other)
            self._negatives = Negatives(cut, codes, codes[other])

    @property
    def negatives(self) -> Negatives | None:
        """The alias table that was built last."""
        return self._negatives

    def forget_negatives(self) -> None:
        """Drop the alias table, so that a saved model and its copy go on alike."""
        self._negatives = None


def preference_vector(vectors: np.ndarray, chosen: np.ndarray, penalty: float) -> np.ndarray:
    """Return components and, last, bias 0 of a user with the chosen rows of item vectors.

    Newton steps for the p that maximises the mean over chosen items of log softmax(p.q + bias) less
    `penalty * p.p / 2`: what descent does for a known user, with all items for the drawn ones. What
    is found is believed as `trust` says.
    """
    q, bias = vectors[:, :-1].astype(np.float64), vectors[:, -1].astype(np.float64)
    p = np.zeros(q.shape[1])
    target = q[chosen].mean(axis=0) if chosen.size else p
    for _ in range(STEPS if chosen.size else 0):
        scores = q @ p + bias
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        mean = weights @ q
        curvature = (q * weights[:, None]).T @ q - np.outer(mean, mean)
        curvature += penalty * np.eye(p.size)
        p += np.linalg.solve(curvature, target - mean - penalty * p)
    return np.append(p * trust(np.array([chosen.size]))[0], 0.0).astype(np.float32)

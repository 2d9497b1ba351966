"""Integer sums over users, to each of which a user adds a vector of bounded Euclidean norm.

A user's items are weighed instead of sampled: the more there are, the less each counts. No event is
left out, and the norm of what one user adds is bounded whatever the user has.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato.core.ids import positions_by_text, texts
from sfumato.kernels.recommend import cooccurrence as kernels
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions
from sfumato.recommend.catalogue import Catalogue

__all__ = ["COUNT", "GRAM", "ItemSets", "count_sensitivity", "head_sensitivity", "presence"]

COUNT = 2**12  # added to the count of an item by a user of at most per_user items
GRAM = 2**17  # bound on the norm of what a user adds to the Gram matrix
PRESENT = 5  # the number of users has 1 / PRESENT of the norm of the counts


@dataclass(frozen=True)
class ItemSets:
    """Items of each user, each item once: items[starts[u] : starts[u + 1]] are those of user u.

    Contains raw data; for the curator only. Ids of users are not stored, and their order is that of
    their first rows, on which no sum depends.
    """

    items: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(
        cls, train: Any, catalogue: Catalogue, per_user: int | None = None, seed: int = 0
    ) -> Self:
        """Return the different items of each user that are in the catalogue, as positions.

        At most `per_user` of them are sampled, None for all. Each user's set depends on that user's
        rows alone.
        """
        coded = train.by_row().coded()
        positions = positions_by_text(coded.item_ids, catalogue.ids)[coded.item_codes]
        inside = positions >= 0
        codes, positions = coded.user_codes[inside], positions[inside]
        # By the users' own ids: numbers in the order of appearance would let one user's events
        # choose the sample of another, and so would ids that are integers only while all of them
        # are.
        users = texts(coded.user_ids, codes)
        most = len(catalogue) if per_user is None else per_user
        keep = bound_contributions(users, positions, per_user=most, per_item=1, seed=seed)
        codes = codes[keep]
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes)) if codes.size else np.empty(0, np.int64)
        return cls(positions[keep][order], np.concatenate([[0], ends]).astype(np.int64))

    def total(self, cells: Callable[["ItemSets"], np.ndarray]) -> np.ndarray:
        """Return what the function returns for all users, as `EngineItemSets.total` does."""
        return cells(self)

    @property
    def sizes(self) -> np.ndarray:
        """Number of items of each user."""
        return np.diff(self.starts)

    def counts(self, items: int, per_user: int) -> np.ndarray:
        """Return the weighted count of each item, then the number of users, times integers."""
        weights = np.repeat(_by_size(self.sizes, lambda k: _count_weight(k, per_user)), self.sizes)
        cells = np.zeros(items + 1, np.int64)
        np.add.at(cells, self.items, weights)
        cells[items] = np.count_nonzero(self.sizes) * presence(per_user)
        return cells

    def gram(self, head: np.ndarray, items: int) -> np.ndarray:
        """Return the Gram matrix of the head: its diagonal, then the triangle of its pairs."""
        part, size = self.only(head, items), head.size
        cells = np.zeros(size * (size + 1) // 2, np.int64)
        own = np.repeat(_by_size(part.sizes, lambda k: GRAM // max(k, 1)), part.sizes)
        np.add.at(cells[:size], part.items, own)
        # Halves of a symmetric matrix: pairs weigh sqrt(2) as much as in the matrix.
        both = _by_size(part.sizes, lambda k: math.isqrt(2 * GRAM**2 // max(k, 1) ** 2))
        kernels.add_pairs(part.items, part.starts, both, cells[size:])
        return cells

    def only(self, head: np.ndarray, items: int) -> "ItemSets":
        """Return the sets with the items of the head alone, as positions in it."""
        to = np.full(items, -1, np.int64)
        to[head] = np.arange(head.size)
        inside = to[self.items] >= 0
        before = np.concatenate([[0], np.cumsum(inside)])
        return ItemSets(to[self.items][inside], before[self.starts])


def count_sensitivity(per_user: int) -> int:
    """Return the squared L2 sensitivity of `ItemSets.counts` to one user added or removed.

    k items add at most COUNT**2 per_user / k in squares each, and so COUNT**2 per_user together.
    """
    return COUNT**2 * per_user + presence(per_user) ** 2


def head_sensitivity() -> int:
    """Return the squared L2 sensitivity of `ItemSets.gram` to one user added or removed.

    k items and k (k - 1) / 2 pairs add at most (GRAM / k)**2 (k + k (k - 1)) = GRAM**2 in squares.
    """
    return GRAM**2


def _count_weight(k: int, per_user: int) -> int:
    """Return what each of a user's k items adds to its count, rounded down."""
    return math.isqrt(COUNT**2 * per_user // max(k, per_user))


def presence(per_user: int) -> int:
    """Return what a user adds to the number of users."""
    return math.isqrt(COUNT**2 * per_user) // PRESENT


def _by_size(sizes: np.ndarray, weight: Any) -> np.ndarray:
    """Return the weight of each user, a function of the number of items in exact integers."""
    values, inverse = np.unique(sizes, return_inverse=True)
    return np.array([weight(int(k)) for k in values], np.int64)[inverse]

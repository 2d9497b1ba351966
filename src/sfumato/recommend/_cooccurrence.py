"""How often items occur, alone and in pairs, when each user counts for so many items and no more.

What one unit changes, with at most m different items kept of each user:
one user more or less changes only the sums of that user's kept items: m counts of items and
m (m - 1) / 2 counts of pairs, each by 1.
One event more or less lets at most one item of its user in and at most one out
(`bound_contributions`). If one goes out, m stay: the one that came pairs with the m - 1 others, and
so did the one that went. So at most 2 counts of items and 2 (m - 1) counts of pairs change, by 1.
In a count sketch each pair is one cell in each row, and the pairs of a unit may all share a cell.
To replace a unit is to remove one and to add one, which doubles L1 norms and quadruples squares.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels import cooccurrence as kernels
from sfumato.privacy.bounding import bound_contributions
from sfumato.recommend._catalogue import Catalogue
from sfumato.sketch import CountSketch
from sfumato.sketch._ids import places_by_text, texts

__all__ = ["UNITS", "Shape", "Touched", "counted"]

UNITS = ("event", "user")
BLOCK = 1 << 22  # pairs that are listed at a time


@dataclass(frozen=True)
class Touched:
    """The most counts of items and of pairs that one unit changes, each by 1."""

    items: int
    pairs: int
    replaced: bool

    @classmethod
    def by(cls, unit: str, relation: str, per_user: int) -> "Touched":
        replaced = relation == "replace"
        if unit == "event":
            return cls(2, 2 * (per_user - 1), replaced)
        return cls(per_user, per_user * (per_user - 1) // 2, replaced)

    def l1(self, shape: "Shape") -> int:
        """The L1 norm of the change of all cells."""
        return (self.items * shape.weight + self.pairs * shape.depth) * (2 if self.replaced else 1)

    def l2_squared(self, shape: "Shape") -> int:
        """The squared L2 norm of the change of all cells."""
        # In a table each pair has its own cell; in a row of a sketch all may meet in one.
        pairs = shape.depth * self.pairs**2 if shape.sketched else self.pairs
        return (self.items * shape.weight**2 + pairs) * (4 if self.replaced else 1)


@dataclass(frozen=True)
class Shape:
    """The cells: `weight` times the count of each item, then depth x width cells of pairs."""

    items: int
    weight: int
    width: int
    depth: int
    seed: int
    sketched: bool

    @property
    def cells(self) -> int:
        return self.items + self.width * self.depth


def counted(train: Any, catalogue: Catalogue, per_user: int, shape: Shape) -> np.ndarray:
    """The cells without noise, int64: for the curator alone."""
    items, starts = _kept(train, catalogue, per_user, shape.seed)
    cells = np.zeros(shape.cells, np.int64)
    cells[: shape.items] = shape.weight * np.bincount(items, minlength=shape.items)
    if shape.sketched:
        cells[shape.items :] = _sketched(items, starts, shape)
    else:
        kernels.add_pairs(items, starts, cells[shape.items :])
    return cells


def _kept(
    train: Any, catalogue: Catalogue, per_user: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The catalogue places of each user's kept items, user after user, and where each begins."""
    coded = train.by_row().coded()
    places = places_by_text(coded.item_ids, catalogue.ids)[coded.item_codes]
    inside = places >= 0
    codes, places = coded.user_codes[inside], places[inside]
    # By the users' own ids: numbers in the order of appearance would let one user's events choose
    # the sample of another, and so would ids that are integers only while all of them are.
    users = texts(coded.user_ids, codes)
    keep = bound_contributions(users, places, per_user=per_user, per_item=1, seed=seed)
    codes = codes[keep]
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes)) if codes.size else np.empty(0, np.int64)
    return places[keep][order], np.concatenate([[0], ends]).astype(np.int64)


def _sketched(items: np.ndarray, starts: np.ndarray, shape: Shape) -> np.ndarray:
    """The cells of a count sketch of the pairs, row after row."""
    sketch = CountSketch(shape.width, shape.depth, seed=shape.seed)
    sizes = np.diff(starts)
    before = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    user = 0
    while user < sizes.size:
        end = max(user + 1, int(np.searchsorted(before, before[user] + BLOCK, "right")) - 1)
        keys = np.empty(before[end] - before[user], np.int64)
        kernels.list_pairs(items, starts[user : end + 1], keys)
        sketch.update(keys)
        user = end
    return np.asarray(sketch._table.reshape(-1))

"""Support: how many training rows there are of each user and item."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue

__all__ = ["Support"]


@dataclass(frozen=True)
class Support:
    """Numbers of training rows of users, by id, and of items, by position in the catalogue."""

    users: SortedCatalogue
    user_counts: np.ndarray
    item_counts: np.ndarray

    @classmethod
    def of(cls, train: Interactions, items: Catalogue) -> Self:
        """Count the rows of the catalogue's items."""
        coded = train.coded()
        at = items.positions(coded.item_ids)[coded.item_codes]
        users = np.bincount(coded.user_codes[at >= 0], minlength=coded.user_ids.size)
        counts = np.bincount(at[at >= 0], minlength=len(items))
        return cls(SortedCatalogue(coded.user_ids), users.astype(np.int64), counts.astype(np.int64))

    def of_users(self, ids: np.ndarray) -> np.ndarray:
        """Return the number of rows of each user, 0 for an unknown one."""
        rows = self.users.positions(ids)
        return np.where(rows >= 0, self.user_counts[rows], 0)

    def of_items(self, positions: np.ndarray) -> np.ndarray:
        """Return the number of rows of the items at these positions, 0 at -1."""
        return np.where(positions >= 0, self.item_counts[positions], 0)

    @staticmethod
    def layout(kind: str) -> dict[str, Cells]:
        """The arrays of a file, for user ids of this kind."""
        ids = {f"user_{name}": cells for name, cells in Catalogue.layout(kind).items()}
        counts = Cells(np.int64, (-1,))
        return {**ids, "user_counts": counts, "item_counts": counts}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a file, named as in `layout`."""
        ids = {f"user_{name}": array for name, array in self.users.arrays().items()}
        return {**ids, "user_counts": self.user_counts, "item_counts": self.item_counts}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], items: int) -> Self:
        """Read the arrays of a file; ValueError where they do not fit each other."""
        users, counts = arrays.pop("user_counts"), arrays.pop("item_counts")
        ids = {name.removeprefix("user_"): array for name, array in arrays.items()}
        known = SortedCatalogue.from_arrays(ids)
        if users.size != len(known) or counts.size != items or min(users.min(), counts.min()) < 0:
            raise ValueError("counts must be at least 0, one for each user and item.")
        return cls(known, users, counts)

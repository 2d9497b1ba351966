"""Item sets of users while profiles are built: sorted hashes, each item once."""

from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.ids import are_distinct, distinct, ids_of, kind_of, positions_by_text, texts
from sfumato.data.interactions import Interactions, item_seed
from sfumato.kernels import profile_sets as kernels

__all__ = ["ProfileSets", "hashed_items", "public_users"]

FEW = 1 << 16  # items that are not worth gathering with all others yet


class _ItemSets(NamedTuple):
    """User ids, the offset of each set in the hashes (and the end of the last), and the hashes."""

    users: np.ndarray
    starts: np.ndarray
    hashes: np.ndarray


NOBODY = _ItemSets(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint64))


class ProfileSets:
    """Users and their item sets; a repeated row changes nothing.

    **Guarantee.** The hashes of a profile are sorted and distinct, so adding or removing one item
    adds or removes one hash, whatever the order and number of rows; 7 and "7" are one item, and
    one user. Memory is 8 bytes per item of a profile; many small updates cost as much as a few
    large ones, up to a logarithmic factor. `seed` is that of the hashes.

    >>> rows = Interactions([7, 8, 7, 7], ["tea", "tea", "milk", "tea"], [1, 1, 1, 1])
    >>> sets = ProfileSets(seed=0).update(rows)
    >>> sets.users, sets.sizes
    (array([7, 8]), array([2, 1]))
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        # The first part is the largest; the others wait to be merged into it.
        self._parts: list[_ItemSets] = []

    def __len__(self) -> int:
        return int(self.users.size)

    @property
    def users(self) -> np.ndarray:
        """The ids of the users, in order of first appearance."""
        return self._joined().users

    @property
    def starts(self) -> np.ndarray:
        """Offset of each profile in the hashes, and the end of the last."""
        return self._joined().starts

    @property
    def hashes(self) -> np.ndarray:
        """The hashes of items, profile after profile."""
        return self._joined().hashes

    @property
    def sizes(self) -> np.ndarray:
        """Number of distinct items of each profile."""
        return np.diff(self.starts)

    @property
    def kind(self) -> str:
        """Type of the user ids: "integers" or "text"."""
        return kind_of(self.users)

    def update(self, interactions: Interactions) -> Self:
        """Add the items of these rows to the profiles of their users."""
        coded = interactions.by_row().coded()
        hashes = hashed_items(coded.item_ids, self.seed)
        gathered = _gathered(coded.user_codes, coded.item_codes, hashes, coded.user_ids.size)
        return self._take(_ItemSets(coded.user_ids, *gathered))

    def merge(self, other: "ProfileSets") -> Self:
        """Add the profiles of another collection, item by item."""
        return self._take(other._joined())

    def of_users(self, users: np.ndarray) -> "ProfileSets":
        """Select exactly these users, in this order, with an empty set for one without items."""
        if users.dtype == self.users.dtype and np.array_equal(users, self.users):
            return self
        return self._arranged(users, positions_by_text(users, self.users))

    def trimmed(self, most: int) -> "ProfileSets":
        """Limit each profile to the `most` items of smallest hash."""
        sizes = np.minimum(self.sizes, most)
        inside = np.arange(self.hashes.size) - np.repeat(self.starts[:-1], self.sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return self._made(self.users, starts, self.hashes[inside < most])

    def _arranged(self, users: np.ndarray, order: np.ndarray) -> "ProfileSets":
        """Profiles at these positions (empty where -1), under these user ids."""
        sizes = np.where(order >= 0, np.append(self.sizes, 0)[order], 0)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        hashes = np.empty(starts[-1], np.uint64)
        kernels.arrange(self.starts, self.hashes, order, starts, hashes)
        return self._made(users, starts, hashes)

    def _made(self, *arrays: np.ndarray) -> "ProfileSets":
        made = ProfileSets(self.seed)
        made._parts.append(_ItemSets(*arrays))
        return made

    def _take(self, part: _ItemSets) -> Self:
        if not part.users.size:
            return self
        self._parts.append(part)
        first, *others = (each.hashes.size for each in self._parts)
        if sum(others) > max(first, FEW):
            self._joined()
        return self

    def _joined(self) -> _ItemSets:
        """Merge all parts into one and keep it."""
        if len(self._parts) > 1:
            users, codes = distinct(_together([part.users for part in self._parts]))
            sizes = np.concatenate([np.diff(part.starts) for part in self._parts])
            hashes = np.concatenate([part.hashes for part in self._parts])
            rows = np.repeat(codes, sizes)
            gathered = _gathered(rows, np.arange(rows.size), hashes, users.size)
            self._parts = [_ItemSets(users, *gathered)]
        return self._parts[0] if self._parts else NOBODY


def hashed_items(items: np.ndarray, seed: int) -> np.ndarray:
    """Hash each item as its text, so that no other row changes how an item is read.

    >>> bool(hashed_items(np.array([7]), 0) == hashed_items(np.array(["7"], object), 0))
    True
    """
    column = items if items.dtype == np.int64 else texts(items)  # integers hash as their texts
    return hash_column(column, item_seed(seed), name="items")


def public_users(users: Any, owner: str) -> np.ndarray:
    """A public column of user ids, each once; ValueError where none is given."""
    if users is None:
        raise ValueError(
            f"{owner}: users must be given, a public column of ids: those of the interactions "
            "would reveal who has any. Where that is public too, give it: users=[...]."
        )
    column = ids_of(users, "users")
    if not (are_distinct(column) if column.dtype == np.int64 else _texts_are_distinct(column)):
        raise ValueError(f"{owner}: users must name each user once.")
    return column


def _texts_are_distinct(users: np.ndarray) -> bool:
    """Whether no two ids are one user, as "7" and "7.0" are."""
    return len(texts(users).unique()) == users.size


def _together(users: list[np.ndarray]) -> np.ndarray:
    """Concatenate ids; if some are texts, integers become texts too."""
    if len({each.dtype for each in users}) > 1:
        users = [np.asarray(texts(each).to_numpy(zero_copy_only=False)) for each in users]
    return np.concatenate(users)


def _gathered(
    rows: np.ndarray, positions: np.ndarray, hashes: np.ndarray, users: int
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and hashes of the sets: hashes[positions[i]] belongs to user rows[i]."""
    starts = np.zeros(users + 1, np.int64)
    kernels.tally(rows, starts)
    np.cumsum(starts, out=starts)
    out = np.empty(rows.size, np.uint64)
    kernels.gather(rows, positions, hashes, starts[:-1].copy(), out)
    scratch = np.empty(2 * kernels.MOST + 1, np.int32), np.empty(kernels.MOST, np.uint64)
    kernels.settle(starts, out, *scratch)
    total = int(starts[-1])
    return starts, out if total == out.size else out[:total].copy()

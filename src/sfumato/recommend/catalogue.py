"""Catalogue: the ids of the items that may be recommended, in a fixed and public order."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.core.deprecation import renamed_method
from sfumato.core.hashing import hash_column
from sfumato.core.ids import (
    NO_ID,
    coded_integers,
    id_arrays,
    id_layout,
    ids_from,
    ids_of,
    kind_of,
    positions,
    unique,
)
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids

__all__ = ["Catalogue", "SortedCatalogue"]

MANY = 8  # times as many look-ups as this make hashing all ids cheaper than a binary search each


class Catalogue:
    """Ids of the items that may be recommended, in order of first appearance.

    Parameters
    ----------
    items : array_like or scalar
        Integer or text ids, at least one; duplicates are dropped.

    Attributes
    ----------
    ids : ndarray of shape (n_items,)
        The distinct ids; read-only.

    Notes
    -----
    **Guarantee.** No id occurs twice. Of two items with equal scores, the one with the smaller
    position in the catalogue ranks first.

    Examples
    --------
    >>> catalogue = Catalogue([30, 10, 30, 20])
    >>> catalogue.ids
    array([30, 10, 20])
    >>> catalogue.positions([20, 99])
    array([ 2, -1])
    """

    ids: np.ndarray

    def __init__(self, items: Ids) -> None:
        column = ids_of(items, "catalogue")
        if not column.size:
            raise ValueError("catalogue: at least one item is needed.")
        integers = column.dtype == np.int64  # Arrow would import pandas
        self.ids = coded_integers(column)[1] if integers else unique(column)
        self.ids.flags.writeable = False

    def __len__(self) -> int:
        return int(self.ids.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return NotImplemented
        return self.kind == other.kind and np.array_equal(self.ids, other.ids)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} items, {self.kind})"

    @property
    def kind(self) -> str:
        """Type of the ids: "integers" or "text"."""
        return kind_of(self.ids)

    @property
    def nbytes(self) -> int:
        """Size of the catalogue in a file, in bytes."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def positions(self, items: Ids) -> np.ndarray:
        """Find the position of each item in the catalogue.

        Parameters
        ----------
        items : array_like or scalar
            Item ids.

        Returns
        -------
        ndarray of shape (n,)
            Positions from 0, int64; -1 for an item that is not in the catalogue.
        """
        ids = ids_of(items, "items")
        if MANY * ids.size > len(self):
            return positions(ids, self.ids)
        return self._few(ids)

    places: Callable[..., Any] = renamed_method("places", "positions")

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Return the ids at the given positions.

        Parameters
        ----------
        positions : ndarray
            Positions of any shape; -1 stands for no item.

        Returns
        -------
        ndarray
            Ids in the shape of `positions`; where the position is -1, the id -1 (integers) or None
            (text).
        """
        found = np.asarray(self.ids[positions])
        missing = positions < 0
        if missing.any():
            found[missing] = NO_ID[self.kind]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the catalogue as the named arrays of a file.

        Returns
        -------
        dict of str to ndarray
            The ids, and the ends of each text if the ids are texts.
        """
        return id_arrays("catalogue", self.ids)

    @staticmethod
    def layout(kind: str) -> dict[str, Cells]:
        """Describe the arrays in a file for a catalogue of the given kind.

        Parameters
        ----------
        kind : {"integers", "text"}
            Type of the ids.

        Returns
        -------
        dict of str to Cells
            Type and shape of each array.
        """
        return id_layout("catalogue", kind)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Restore a catalogue from the arrays of a file.

        Parameters
        ----------
        arrays : dict of str to ndarray
            The result of `arrays`.

        Returns
        -------
        Self
            The catalogue.

        Raises
        ------
        ValueError
            If the arrays are inconsistent.
        """
        ids = ids_from("catalogue", arrays)
        if not ids.size:
            raise ValueError("catalogue: at least one item is needed.")
        return cls._of_distinct(ids)

    @classmethod
    def _of_distinct(cls, ids: np.ndarray) -> Self:
        """Return the catalogue of ids that are known to be distinct."""
        made = cls.__new__(cls)
        made.ids = ids
        made.ids.flags.writeable = False
        return made

    def _position(self, item: Any) -> int:
        """Return the position of one id of the catalogue's kind, or -1."""
        seed, keys, order = self._sorted
        wanted = item if type(item) is int else _keys(np.array([item], self.ids.dtype), seed)[0]
        at = int(keys.searchsorted(wanted))
        found = int(order[at]) if at < keys.size else -1
        return found if found >= 0 and self.ids[found] == item else -1

    def _few(self, ids: np.ndarray) -> np.ndarray:
        """Return the position of each id by binary search, which is faster for a few ids."""
        if not ids.size or kind_of(ids) != self.kind:
            return np.full(ids.size, -1, np.int64)
        seed, keys, order = self._sorted
        found = order.take(keys.searchsorted(_keys(ids, seed)), mode="clip")
        return np.where(self.ids[found] == ids, found, -1)

    @cached_property
    def _sorted(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Return a hash seed without collisions, the sorted keys, and the position of each key."""
        seed = 0
        while True:
            keys = _keys(self.ids, seed)
            order = np.argsort(keys)
            keys = keys[order]
            if not (keys[1:] == keys[:-1]).any():
                return seed, keys, order
            seed += 1


class SortedCatalogue(Catalogue):
    """Catalogue for many look-ups of a few ids; it sorts its ids on first use.

    `positions` returns the same as in Catalogue. The sorted keys take 16 bytes per id.

    >>> SortedCatalogue([30, 10, 20]).positions([20, 99])
    array([ 2, -1])
    >>> SortedCatalogue(["tea", "rum"]).positions(["rum", "milk"])
    array([ 1, -1])
    """

    @classmethod
    def of(cls, catalogue: Catalogue) -> Self:
        """Return the same ids."""
        return cls._of_distinct(catalogue.ids)

    def positions(self, items: Any) -> np.ndarray:
        if items is self.ids:
            return np.arange(len(self))
        return self._few(ids_of(items, "items"))


def _keys(ids: np.ndarray, seed: int) -> np.ndarray:
    """Return integers as they are and the hashes of texts, which are faster to compare."""
    return ids if kind_of(ids) == "integers" else hash_column(ids, seed)

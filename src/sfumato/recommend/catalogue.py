"""The catalogue: which items may be recommended, each once, in a fixed and public order.

Known ids: where each stands in a table, sorted once, so that one look-up costs no whole pass.
"""

from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.core.deprecation import renamed_method
from sfumato.core.hashing import hash_column
from sfumato.core.ids import (
    NO_ID,
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


class Catalogue:
    """Ids of the items that may be recommended, in order of first appearance.

    Parameters
    ----------
    items : array_like or scalar
        A column of integers or texts; repeated ids count once.

    Notes
    -----
    **Guarantee.** No id occurs twice; ties between equal scores go to the id that stands first.

    Examples
    --------
    >>> shelf = Catalogue([30, 10, 30, 20])
    >>> shelf.ids
    array([30, 10, 20])
    >>> shelf.places([20, 99])
    array([ 2, -1])
    """

    ids: np.ndarray

    def __init__(self, items: Ids) -> None:
        column = ids_of(items, "catalogue")
        if not column.size:
            raise ValueError("catalogue: at least one item is needed.")
        self.ids = unique(column)
        self.ids.flags.writeable = False

    def __len__(self) -> int:
        return int(self.ids.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return NotImplemented
        return self.kind == other.kind and np.array_equal(self.ids, other.ids)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} items, {self.kind})"

    @property
    def kind(self) -> str:
        """What the ids are: "integers" or "text"."""
        return kind_of(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the catalogue in a file."""
        return sum(int(array.nbytes) for array in self.arrays().values())

    def positions(self, items: Ids) -> np.ndarray:
        """Where each item stands in the catalogue, -1 for one that is not in it.

        Parameters
        ----------
        items : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            Where each item stands in the catalogue, -1 for one that is not in it.
        """
        return positions(ids_of(items, "items"), self.ids)

    places = renamed_method("places", "positions")

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The ids at these places; where the place is -1, the id of no item: -1 or None.

        Parameters
        ----------
        positions : ndarray
            TODO.

        Returns
        -------
        ndarray
            The ids at these places; where the place is -1, the id of no item: -1 or None.
        """
        found = np.asarray(self.ids[positions])
        found[positions < 0] = NO_ID[self.kind]
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """The catalogue as the arrays of a file.

        Returns
        -------
        dict
            The catalogue as the arrays of a file.
        """
        return id_arrays("catalogue", self.ids)

    @staticmethod
    def layout(kind: str) -> dict[str, Cells]:
        """The arrays that a file must have for a catalogue of this kind.

        Parameters
        ----------
        kind : str
            TODO.

        Returns
        -------
        dict
            The arrays that a file must have for a catalogue of this kind.
        """
        return id_layout("catalogue", kind)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """The catalogue in the arrays of a file; ValueError where they do not hold together.

        Parameters
        ----------
        arrays : dict
            TODO.

        Returns
        -------
        Self
            The catalogue in the arrays of a file; ValueError where they do not hold together.
        """
        return cls(ids_from("catalogue", arrays))


class SortedCatalogue(Catalogue):
    """A catalogue that is asked often for a few ids: it is sorted when it is first asked.

    Guarantee: `places` are those of Catalogue; sorted keys and their order take 16 bytes an id.

    >>> SortedCatalogue([30, 10, 20]).places([20, 99])
    array([ 2, -1])
    >>> SortedCatalogue(["tea", "rum"]).places(["rum", "milk"])
    array([ 1, -1])
    """

    def positions(self, items: Any) -> np.ndarray:
        """Where each id stands, -1 for one that is not there."""
        ids = ids_of(items, "items")
        if not ids.size or kind_of(ids) != self.kind:
            return np.full(ids.size, -1, np.int64)
        seed, keys, order = self._sorted
        wanted = _keys(ids, seed)
        found = order[np.minimum(np.searchsorted(keys, wanted), keys.size - 1)]
        return np.where(self.ids[found] == ids, found, -1)

    @cached_property
    def _sorted(self) -> tuple[int, np.ndarray, np.ndarray]:
        """A seed under which no two ids have one key, the keys sorted, and whose each is."""
        seed = 0
        while True:
            keys = _keys(self.ids, seed)
            order = np.argsort(keys)
            keys = keys[order]
            if not (keys[1:] == keys[:-1]).any():
                return seed, keys, order
            seed += 1


def _keys(ids: np.ndarray, seed: int) -> np.ndarray:
    """Integers as they are; texts by a hash, since comparing them is slow."""
    return ids if kind_of(ids) == "integers" else hash_column(ids, seed)

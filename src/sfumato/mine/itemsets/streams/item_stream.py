"""State of a stream that is stored with the ids of its items."""

from typing import ClassVar, Self

import numpy as np

from sfumato.core.file_format import Packed
from sfumato.core.ids import (
    id_arrays,
    id_layout,
    ids_from,
    kind_of,
)
from sfumato.core.storage import Cells, Stored

__all__ = ["ItemStream"]


class ItemStream(Stored, in_files=False):
    """State that is stored with the ids it speaks of: `_items`, all integers or all texts."""

    _items: np.ndarray
    _cells: ClassVar[dict[str, Cells]] = {}  # the other arrays
    _scalars: ClassVar[dict[str, int | float | str]] = {"total": 0, "kind": "integers"}
    total: int
    kind: str

    def _start(self) -> None:
        vars(self).update(self._scalars)
        self._items = np.empty(0, np.int64)
        for name, cells in self._cells.items():
            setattr(self, name, np.zeros([max(size, 0) for size in cells.shape], cells.dtype))

    def _layout(self) -> dict[str, Cells]:
        return {**self._cells, **id_layout("items", self.kind)}

    def _arrays(self) -> dict[str, np.ndarray]:
        own = {name: getattr(self, name) for name in self._cells}
        return {**own, **id_arrays("items", self._items)}

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        stored = {name: vars(self).pop(name) for name in id_layout("items", self.kind)}
        self._items = ids_from("items", stored)
        self._check_items()

    def _check_items(self) -> None:
        """Raise ValueError if the arrays of a file do not fit each other."""

    def _check_kind(self, ids: np.ndarray) -> None:
        """Raise TypeError if texts follow integers, or integers texts."""
        if ids.size and self._items.size and kind_of(ids) != self.kind:
            raise TypeError(
                f"{type(self).__name__}: items are {kind_of(ids)} here and {self.kind} before; "
                "give all of them as texts."
            )

    def copy(self) -> Self:
        """Copy the object.

        Returns
        -------
        Self
            An independent copy.
        """
        return type(self).from_bytes(self.to_bytes())

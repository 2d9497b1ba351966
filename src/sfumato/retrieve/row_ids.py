"""Ids of the rows of an index: integers as they are, texts by numbers that stand for them."""

from typing import Any, Self

import numpy as np

from sfumato.core.ids import id_arrays, ids_from, ids_of, kind_of
from sfumato.retrieve.binary.store import integer_ids

__all__ = ["RowIds", "taken_names"]

UNKNOWN = 2**63 - 1  # number of a text that the index does not have; no text is given it
NAMES = "names"  # of the arrays of a file


class RowIds:
    """Numbers of the ids of an index, by the kind of the first ids: integers or texts.

    Integers are their own numbers. Texts are numbered in the order of their first appearance; a
    text that is removed and added again has its old number.

    **Guarantee.** Numbers and texts are added, never changed, so that a reader with a snapshot of
    rows finds the texts of all of them. One thread adds at a time.

    >>> ids = RowIds()
    >>> column, new = ids.numbered("Index", ["tea", "rum", "tea"])
    >>> ids.add(new, text=True).texts(np.array([[1, -1]])), column
    (array([['rum', None]], dtype=object), array([0, 1, 0]))
    """

    def __init__(self) -> None:
        self.kind: str | None = None
        self._numbers: dict[str, int] = {}
        self._texts: list[str | None] = []

    def numbered(self, owner: str, ids: Any) -> tuple[np.ndarray, list[str]]:
        """Numbers of ids to be added, int64, and the texts among them that are new."""
        column = self._column(owner, ids)
        if column.dtype == np.int64:
            return column, []
        new: dict[str, int] = {}
        first, known = len(self._texts), self._numbers
        numbers = [
            known[text] if text in known else new.setdefault(text, first + len(new))
            for text in column
        ]
        return np.array(numbers, np.int64), list(new)

    def add(self, new: list[str], *, text: bool) -> Self:
        """Add texts that `numbered` found to be new, before the rows that have them."""
        self.kind = "text" if text else "integers"
        first = len(self._texts)
        self._texts.extend(new)
        self._numbers.update(zip(new, range(first, first + len(new)), strict=True))
        return self

    def numbers(self, owner: str, ids: Any) -> np.ndarray:
        """Numbers of ids to be looked up, int64; unknown texts have one that no row has."""
        column = self._column(owner, ids)
        if column.dtype == np.int64:
            return column
        return np.array([self._numbers.get(text, UNKNOWN) for text in column], np.int64)

    def texts(self, numbers: np.ndarray) -> np.ndarray:
        """Ids of numbers, of any shape: integers as they are; texts, and None for -1."""
        if self.kind != "text":
            return numbers
        out = np.empty(numbers.size, object)
        out[:] = [None if at < 0 else self._texts[at] for at in numbers.ravel().tolist()]
        return out.reshape(numbers.shape)

    def of_rows(self, numbers: np.ndarray) -> "RowIds":
        """Ids of these numbers alone, with the numbers that they have."""
        out = RowIds()
        out.kind = self.kind
        if self.kind == "text":
            out._texts = [None] * len(self._texts)
            for number, text in zip(numbers.tolist(), self.texts(numbers).tolist(), strict=True):
                out._texts[number], out._numbers[text] = text, number
        return out

    def arrays(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays of a file that numbers its rows, which have these numbers here, from 0 on."""
        return id_arrays(NAMES, self.texts(numbers)) if self.kind == "text" else {}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], numbers: np.ndarray) -> Self:
        """Ids of the rows of a file, which have these numbers; integers where it has no `arrays`.

        ValueError for arrays that `arrays` did not make.
        """
        out = cls()
        if not arrays:
            out.kind = "integers" if numbers.size else None
            return out
        texts = ids_from(NAMES, arrays)
        if texts.dtype != object or not np.array_equal(numbers, np.arange(texts.size)):
            raise ValueError("the texts of the ids do not fit the rows.")
        return out.add(texts.tolist(), text=True)

    def _column(self, owner: str, ids: Any) -> np.ndarray:
        """Ids as int64 or texts; TypeError for those of another kind than the index has."""
        if self.kind == "integers":
            return integer_ids(owner, ids)
        if type(ids) is list and len(ids) == 1 and type(ids[0]) is int:
            column = np.array(ids, np.int64) if ids[0] < 2**63 else ids_of(ids, f"{owner}: ids")
        else:
            column = ids_of(ids, f"{owner}: ids")
        if not column.size:
            return np.empty(0, np.int64)
        if kind_of(column) == "integers" and self.kind == "text":
            raise TypeError(f"{owner}: ids must be texts, as those of the index, not integers.")
        return column if kind_of(column) == "text" else integer_ids(owner, column)


def taken_names(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take the arrays of texts, if there are any, out of those of a file."""
    return {name: arrays.pop(name) for name in (NAMES, f"{NAMES}_ends") if name in arrays}

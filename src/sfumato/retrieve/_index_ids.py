"""Ids of an index: whole numbers from 0 up, each once; errors name the position, never the id."""

from typing import Any, Protocol

import numpy as np

from sfumato.retrieve._held import bits_of, mask_of
from sfumato.sketch._ids import ids_of, kind_of

__all__ = [
    "allowed_bits",
    "check_distinct",
    "check_ids",
    "check_known",
    "check_new",
    "whole_ids",
]


class Living(Protocol):
    """Rows, and the bits of those that can be found; None where all can."""

    @property
    def count(self) -> int: ...

    @property
    def living(self) -> int: ...

    @property
    def alive(self) -> np.ndarray | None: ...


def whole_ids(owner: str, ids: Any) -> np.ndarray:
    """A column of ids, or one, as int64 from 0 up."""
    column = ids_of(ids, f"{owner}: ids")
    if kind_of(column) == "text" and column.size:
        raise TypeError(f"{owner}: ids must be whole numbers from 0 up, not text at row 0.")
    column = column.astype(np.int64, copy=False)
    if column.size and column.min() < 0:
        at = int((column < 0).argmax())
        raise ValueError(f"{owner}: ids must be from 0 up; row {at} is negative.")
    return column


def check_distinct(owner: str, ids: np.ndarray) -> None:
    """Raise ValueError where an id stands twice in a column."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    if again.size:
        raise ValueError(
            f"{owner}: an id stands twice; row {int(again.min())} repeats one before it."
        )


def check_ids(ids: np.ndarray) -> None:
    """Raise ValueError for ids of a file that no index could have written."""
    if (ids < 0).any():
        raise ValueError("an id is negative.")
    check_distinct("file", ids)


def check_new(owner: str, rows: np.ndarray) -> None:
    """Raise ValueError where an id is in the index already; rows say where, or -1."""
    if (rows >= 0).any():
        at = int((rows >= 0).argmax())
        raise ValueError(
            f"{owner}: an id is in the index already, at row {at}; remove it first to replace it."
        )


def check_known(owner: str, rows: np.ndarray) -> None:
    """Raise ValueError where an id is not in the index; rows say where it is, or -1."""
    if (rows < 0).any():
        at = int((rows < 0).argmax())
        raise ValueError(f"{owner}: an id is not in the index, at row {at}; see `ids`.")


def allowed_bits(owner: str, allowed: Any, held: Living) -> np.ndarray | None:
    """The rows that may be found, as bits: those that live, less what the filter leaves out."""
    if allowed is None:
        return held.alive
    try:
        mask = np.asarray(allowed)
    except ValueError:  # rows of several lengths
        mask = np.empty(0)
    if mask.dtype != bool or mask.shape != (held.living,):
        raise ValueError(
            f"{owner}: filter must be a boolean mask with {held.living} entries, one an id of "
            f"`ids` (see `mask`), not {mask.dtype} of shape {mask.shape}."
        )
    if held.alive is None:
        return bits_of(mask)
    rows = mask_of(held.alive, held.count).copy()
    rows[rows] = mask
    return bits_of(rows)

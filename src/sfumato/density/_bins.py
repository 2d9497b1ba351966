"""Columns cut into cells by public numbers: equal parts of the bounds, or codes of categories."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.sketch._points import Pair

__all__ = ["COLUMNS", "LEVELS", "Bins", "column_places", "levels_of"]


class _Levels:
    """One whole number per column: how many codes a category has, 0 where the column measures."""

    def check(self, owner: str, name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, tuple | list) or not value:
            raise ValueError(f"{owner}: {name} must be whole numbers, one per column.")
        return tuple(whole(0, 2**20).check(owner, name, one) for one in value)

    def bad(self) -> list[Any]:
        return [None, 3, (), (-1,), (0.5,), ("many",)]


LEVELS = _Levels()


class _Columns:
    """None, or the numbers or names of columns."""

    def check(self, owner: str, name: str, value: Any) -> tuple[int | str, ...] | None:
        if value is None:
            return None
        if isinstance(value, str) or not np.iterable(value):
            raise ValueError(
                f"{owner}: {name} must be None or a list of columns, by number or name, not "
                f"{value!r}."
            )
        return tuple(
            str(one) if isinstance(one, str) else whole(0).check(owner, name, one) for one in value
        )

    def bad(self) -> list[Any]:
        return [3, "all", [-1], [0.5]]


COLUMNS = _Columns()


@dataclass(frozen=True)
class Bins:
    """The cells of all columns, one column after the other.

    Parameters: bounds, (low, high) with a number per column; bins, equal parts of a column that
    measures; levels, how many codes 0, 1, ... a column of categories has, 0 for one that measures.
    What lies outside counts at the nearest end.

    >>> cut = Bins(((0.0, 0.0), (1.0, 2.0)), 4, (0, 3))
    >>> cut.codes(np.array([[0.3, 2.0], [9.0, 0.0]]))
    array([[1, 6],
           [3, 4]])
    """

    bounds: Pair
    bins: int
    levels: tuple[int, ...]

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many cells each column has."""
        levels = np.array(self.levels)
        return np.asarray(np.where(levels > 0, levels, self.bins))

    @cached_property
    def starts(self) -> np.ndarray:
        """The first cell of each column."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    @property
    def total(self) -> int:
        """The cells of all columns."""
        return int(self.sizes.sum())

    @property
    def columns(self) -> int:
        return len(self.levels)

    @cached_property
    def measures(self) -> np.ndarray:
        """The cells of each column that measures, a column a row."""
        places = np.flatnonzero(np.array(self.levels) == 0)
        return np.asarray(self.starts[places][:, None] + np.arange(self.bins))

    def codes(self, points: np.ndarray) -> np.ndarray:
        """The cell of every value."""
        low, high = (np.array(side) for side in self.bounds)
        category = np.array(self.levels) > 0
        inside = np.clip(points, low, high)  # so that nothing overflows
        scaled = np.where(category, inside, (inside - low) / (high - low) * self.bins)
        part = np.clip(np.floor(scaled), 0, self.sizes - 1)
        return np.asarray(part.astype(np.int64) + self.starts)

    def sums(self, cells: np.ndarray) -> np.ndarray:
        """The sum of each column's cells, along the last axis."""
        return np.asarray(np.add.reduceat(cells, self.starts, axis=-1))

    def spread(self, columns: np.ndarray) -> np.ndarray:
        """A number per column as one per cell, along the last axis."""
        return np.repeat(columns, self.sizes, axis=-1)


def column_places(
    owner: str, categorical: Any, names: list[str], columns: int
) -> tuple[int, ...] | None:
    """The numbers of these columns, where each is given by its number or by its name in X."""
    if categorical is None:
        return None
    unknown = [one for one in categorical if isinstance(one, str) and one not in names]
    if unknown:
        known = "has no such column" if names else "has no names of columns; give its number"
        raise ValueError(f"{owner}: categorical names {unknown[0]!r}, and X {known}.")
    return tuple(
        names.index(one)
        if isinstance(one, str)
        else whole(0, columns - 1).check(owner, "categorical", one)
        for one in categorical
    )


def levels_of(owner: str, categorical: Any, bounds: Pair) -> tuple[int, ...]:
    """How many codes each column has: high + 1 for the columns named, which must begin at 0."""
    columns = len(bounds[0])
    levels = [0] * columns
    for column in () if categorical is None else categorical:
        place = whole(0, columns - 1).check(owner, "categorical", column)
        low, high = bounds[0][place], bounds[1][place]
        if low != 0 or high != int(high):
            raise ValueError(
                f"{owner}: bounds of column {place}, which is categorical, must be 0 and the "
                f"largest code, a whole number, not {low!r} and {high!r}."
            )
        levels[place] = int(high) + 1
    return tuple(levels)

"""Public lists of the categories of columns, by which each cell becomes a code on its own."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.arrays import table_columns, with_columns
from sfumato.core.bounds import Pair
from sfumato.core.canonical_keys import canonical_key
from sfumato.core.row_values import cells_of
from sfumato.density.classify.encoding import COLUMNS, column_positions
from sfumato.errors import ParameterError

__all__ = [
    "CATEGORICAL",
    "CATEGORIES",
    "CategoryList",
    "category_lists",
    "column_name",
    "with_codes",
    "with_listed_bounds",
]

MOST = 2**20  # categories of a column
LARGEST = 2**53  # integers below are exact in a column of floats; this one is the next one too
DATES = datetime.date | datetime.time | datetime.timedelta | np.datetime64 | np.timedelta64
# A column of other cells may write these as numbers or as texts.
EQUAL = {b"True": b"1", b"true": b"1", b"False": b"0", b"false": b"0", b"-0.0": b"0"}
MISSING = (b"", b"nan", b"NaN")


def category_key(cell: Any) -> bytes | None:
    """The canonical text of a cell, whatever type its container gives it; None if it is missing.

    A number that a column of floats cannot tell from others is missing in every column. Zeros at
    the end of a text, which an array of texts drops, are dropped.

    >>> [category_key(cell) for cell in ("Rome", b"Rome", 7, "7.0", True, "", None, 2**53)]
    [b'Rome', b'Rome', b'7', b'7', b'1', None, None, None]
    """
    if isinstance(cell, DATES):  # which are missing in a column of dates
        return None
    key = canonical_key(cell)
    if key is None or (isinstance(cell, int) and abs(cell) >= LARGEST):
        return None
    key = key.rstrip(b"\0")
    return None if key in MISSING or _is_inexact(key) else EQUAL.get(key, key)


def _is_inexact(key: bytes) -> bool:
    """Whether a text is that of a number from 2**53 on."""
    try:
        return LARGEST <= abs(float(key)) < math.inf
    except ValueError:
        return False


class _Categories:
    """Valid categories of one column: a list of distinct texts or integers, two or more."""

    def check(self, owner: str, name: str, value: Any) -> tuple[str | int, ...]:
        wanted = "must list the categories of a column, two or more texts or integers"
        if isinstance(value, str | bytes | Mapping) or not np.iterable(value):
            raise ParameterError.of(owner, name, f"{wanted}, not {value!r:.80}.")
        given = [one.item() if isinstance(one, np.generic) else one for one in value]
        if not 2 <= len(given) <= MOST or not all(map(_is_category, given)):
            problem = f"{wanted}, none of them empty or 'nan' nor a number from 2**53 on."
            raise ParameterError.of(owner, name, problem)
        if len({category_key(one) for one in given}) < len(given):
            raise ParameterError.of(owner, name, f"{wanted}, none twice: 7 and '7' are one.")
        return tuple(str(one) if isinstance(one, str) else one for one in given)

    def bad(self) -> list[Any]:
        lists = [["a"], ["a", "a"], [7, "7"], ["a", None], ["a", ""], [0.5, 1.5], ["a", "a\0"]]
        return [3, "ab", [], *lists, [1, 2**53], ["a", str(2**53)]]


CATEGORIES = _Categories()


def _is_category(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    return category_key(value) is not None


class _Categorical:
    """Valid categorical columns: None, a list of columns, or a mapping of columns to lists.

    A column without a list, None, contains codes.
    """

    def check(self, owner: str, name: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return COLUMNS.check(owner, name, value)
        columns = COLUMNS.check(owner, name, list(value)) or ()
        lists = [
            None if one is None else CATEGORIES.check(owner, name, one) for one in value.values()
        ]
        return dict(zip(columns, lists, strict=True))

    def bad(self) -> list[Any]:
        return [*COLUMNS.bad(), *({0: one} for one in CATEGORIES.bad()), {-1: ["a", "b"]}]


CATEGORICAL = _Categorical()


@dataclass(frozen=True)
class CategoryList:
    """The public list of the categories of one column.

    >>> CategoryList(("Paris", "Rome", 7)).codes(["Rome", "7", None, "Oslo"])
    array([ 1.,  2., nan, nan])
    """

    categories: tuple[str | int, ...]

    @cached_property
    def _positions(self) -> dict[bytes | None, int]:
        return {category_key(one): position for position, one in enumerate(self.categories)}

    def _code(self, cell: Any) -> float:
        return self._positions.get(category_key(cell), np.nan)

    def codes(self, column: Any) -> np.ndarray:
        """The position of every cell in the list as a float, NaN for one that is not listed."""
        cells = cells_of(column)
        texts = {cell for cell in cells if type(cell) in (str, bytes)}
        known = {text: self._code(text) for text in texts}
        found = (known[cell] if type(cell) in (str, bytes) else self._code(cell) for cell in cells)
        return np.fromiter(found, np.float64, len(cells))


def category_lists(
    owner: str, categorical: Any, names: list[str], columns: int
) -> dict[int, CategoryList]:
    """The lists of a checked mapping by the positions of their columns; {} without a mapping."""
    if not isinstance(categorical, dict):
        return {}
    positions = column_positions(owner, categorical, names, columns) or ()
    if len(set(positions)) < len(positions):
        raise ValueError(f"{owner}: categorical names a column twice, by name and by number.")
    given = zip(positions, categorical.values(), strict=True)
    return {position: CategoryList(each) for position, each in given if each is not None}


def with_listed_bounds(
    owner: str, bounds: Pair | None, lists: dict[int, CategoryList], columns: int
) -> Pair | None:
    """Bounds of all columns: 0 and the last code of listed ones, the given bounds of the others.

    They are given for all columns, or for those without a list, or one pair for all of these. None
    stays None unless all columns have lists.
    """
    others = [position for position in range(columns) if position not in lists]
    sides = np.zeros((2, columns))
    for position, listed in lists.items():
        sides[1, position] = len(listed.categories) - 1
    if bounds is None:
        if others:
            return None
    elif len(bounds[0]) in (1, len(others)):
        sides[:, others] = np.array(bounds)[:, : len(others)]
    elif len(bounds[0]) != columns:
        raise ValueError(
            f"{owner}: bounds must be for {len(others)} columns, those without a list of "
            f"categories, or for all {columns}, not {len(bounds[0])}."
        )
    else:
        _refuse_other_bounds(owner, bounds, sides, lists)
        sides[:, others] = np.array(bounds)[:, others]
    low, high = sides.tolist()
    return tuple(low), tuple(high)


def _refuse_other_bounds(owner: str, bounds: Pair, sides: np.ndarray, lists: Any) -> None:
    """Raise if the bounds of a listed column are not those of its list."""
    for position in lists:
        low, high = bounds[0][position], bounds[1][position]
        if (low, high) != tuple(sides[:, position]):
            raise ValueError(
                f"{owner}: bounds of column {position}, which has a list of categories, must be 0 "
                f"and {sides[1, position]:g}, its last code, not {low!r} and {high!r}; or give "
                "bounds of the other columns only."
            )


def column_name(names: list[str], position: int) -> str:
    """A column as errors name it: by its name, else by its number."""
    return f"column {names[position]!r}" if names else f"column {position}"


def with_codes(owner: str, X: Any, lists: dict[int, CategoryList], names: list[str]) -> Any:
    """The table with codes in its listed columns; raises for a cell that is not in its list."""
    columns = table_columns(X) if lists else None
    if columns is None:
        return X
    codes = {position: listed.codes(columns[position]) for position, listed in lists.items()}
    for position, found in codes.items():
        if np.isnan(found).any():
            row = int(np.isnan(found).argmax())
            raise ValueError(
                f"{owner}: X must hold listed categories; row {row}, {column_name(names, position)}"
                " holds none of its list. Drop such rows or extend the list."
            )
    return with_columns(X, codes)

"""Public descriptions of columns: numbers, integers or categories, cut into cells and drawn again.

A column is described by what is public about it, and each cell of a table is read on its own.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.arrays import Readers, private_points
from sfumato.core.typing import Matrix
from sfumato.density.classify.categories import CATEGORIES, CategoryList
from sfumato.errors import ParameterError

__all__ = ["COLUMNS", "ColumnSpec", "codes_of"]

LARGEST = 2**53  # integers up to here are exact as floats
KINDS = ("number", "integer", "category")


class ColumnSpec(NamedTuple):
    """One public column: numbers from low to high, integers, or a list of categories.

    values: (low, high) of numbers or of integers, both possible, or the categories. nullable:
    whether missing values have a cell of their own, the last.

    >>> ages = ColumnSpec("age", "integer", (0, 90))
    >>> ages.cells(32), ages.codes(np.array([0.0, 18.4, 200.0]), 32)
    (32, array([ 0,  6, 31]))
    """

    name: str
    kind: str
    values: tuple[Any, ...]
    nullable: bool = False

    @property
    def public(self) -> Any:
        """What a caller gives for this column: a tuple, a range or a list."""
        if self.kind == "category":
            return list(self.values)
        return self.values if self.kind == "number" else range(self.values[0], self.values[1] + 1)

    def cells(self, bins: int) -> int:
        """Number of cells: one per category, or per integer where there are no more than bins."""
        return self._filled(bins) + self.nullable

    def _filled(self, bins: int) -> int:
        """Number of cells of values that are not missing."""
        if self.kind == "category":
            return len(self.values)
        return bins if self.kind == "number" else min(bins, self._span)

    @property
    def _span(self) -> int:
        """Number of integers from low to high."""
        return int(self.values[1] - self.values[0] + 1)

    def codes(self, numbers: np.ndarray, bins: int) -> np.ndarray:
        """The cell of every number; of a category, its position in the list; NaN is missing."""
        if self.nullable:
            missing = np.isnan(numbers)
            found = self._replace(nullable=False).codes(np.where(missing, 0, numbers), bins)
            return np.where(missing, self._filled(bins), found)
        if self.kind == "category":
            return numbers.astype(np.int64)
        low, high = self.values
        inside = np.clip(numbers, low, high)
        if self.kind == "number":
            parts = ((inside - low) / (high - low) * bins).astype(np.int64)
            return np.asarray(np.minimum(parts, bins - 1))
        offsets = (np.rint(inside) - low).astype(np.int64)
        return np.asarray(np.searchsorted(self._starts(bins), offsets, side="right") - 1)

    def _starts(self, bins: int) -> np.ndarray:
        """The offset of the first integer of every cell, and the number of all at the end."""
        cells = self._filled(bins)
        return np.array([-(-k * self._span // cells) for k in range(cells + 1)], np.int64)

    def drawn(self, codes: np.ndarray, bins: int, rng: np.random.Generator) -> pa.Array:
        """A value drawn uniformly from every cell, in the type of the column."""
        if self.nullable:
            missing, last = codes == self._filled(bins), self._filled(bins) - 1
            filled = self._replace(nullable=False).drawn(np.minimum(codes, last), bins, rng)
            return pc.if_else(pa.array(missing), pa.scalar(None, filled.type), filled)
        if self.kind == "category":
            return pa.array(self.values).take(pa.array(codes))
        low, high = self.values
        if self.kind == "number":
            parts = (codes + rng.random(codes.size)) / bins
            return pa.array(np.clip(low + parts * (high - low), low, high))
        starts = self._starts(bins)
        return pa.array(int(low) + rng.integers(starts[codes], starts[codes + 1]))


class _ColumnsLimit:
    """Valid columns: a mapping of names to bounds, ranges or lists, or such specifications."""

    def check(self, owner: str, name: str, value: Any) -> tuple[ColumnSpec, ...]:
        if isinstance(value, Mapping):
            parts = [_described(owner, name, str(key), each) for key, each in value.items()]
        elif isinstance(value, list | tuple):  # as files and estimators store them
            parts = [_stored(owner, name, each) for each in value]
        else:
            parts = []
        if not parts or len({each.name for each in parts}) < len(parts):
            raise ParameterError.of(
                owner,
                name,
                "must map the name of each column to what is public of it: (low, high) of numbers, "
                "a range of integers, or a list of categories.",
            )
        return tuple(parts)

    def bad(self) -> list[Any]:
        return [None, 3, {}, (), {"x": 3}, {"x": (1, 0)}, {"x": ["a"]}, {"x": range(5, 5)}]


COLUMNS = _ColumnsLimit()


def _described(owner: str, name: str, column: str, value: Any) -> ColumnSpec:
    """The specification of a column by its bounds, range or list."""
    if isinstance(value, range):
        if value.step == 1 and len(value) > 1 and max(-value.start, value.stop) < LARGEST:
            return ColumnSpec(column, "integer", (value.start, value.stop - 1))
    elif not isinstance(value, tuple):
        return ColumnSpec(column, "category", CATEGORIES.check(owner, name, value))
    elif len(value) == 2 and all(isinstance(v, int | float | np.number) for v in value):
        low, high = map(float, value)
        if -math.inf < low < high < math.inf and high - low < math.inf:
            return ColumnSpec(column, "number", (low, high))
    raise ParameterError.of(
        owner,
        name,
        f"must have, of column {column!r}, a tuple (low, high) of finite numbers, low below high, "
        f"a range of two or more integers by steps of 1, or a list of categories, "
        f"not {value!r:.80}.",
    )


def _stored(owner: str, name: str, value: Any) -> ColumnSpec:
    """The specification of a column that a file states."""
    wanted = "must hold a name, a kind, values and whether they may be missing for each column."
    if not isinstance(value, list | tuple) or len(value) != 4 or value[1] not in KINDS:
        raise ParameterError.of(owner, name, wanted)
    column, kind, values, nullable = value
    if not isinstance(column, str) or not isinstance(values, list | tuple):
        raise ParameterError.of(owner, name, wanted)
    if type(nullable) is not bool:
        raise ParameterError.of(owner, name, wanted)
    if kind == "category":
        found = _described(owner, name, column, list(values))
    elif kind == "integer" and len(values) == 2 and all(type(each) is int for each in values):
        found = _described(owner, name, column, range(values[0], values[1] + 1))
    else:
        found = _described(owner, name, column, tuple(values))
    return found._replace(nullable=nullable)


def codes_of(owner: str, X: Matrix, columns: tuple[ColumnSpec, ...], bins: int) -> np.ndarray:
    """The cells of all rows of a table, a column per specification; invalid rows are left out.

    A cell that is not a number, or a category that is not listed, is missing; a row that misses one
    is left out, unless that column is nullable. Columns are those of these names, or all in this
    order where there are no names.
    """
    readers: Readers = {
        at: CategoryList(each.values).codes
        for at, each in enumerate(columns)
        if each.kind == "category"
    }
    points = private_points(owner, _named(owner, X, columns), len(columns), readers)
    if points.shape[1] != len(columns):
        raise ValueError(
            f"{owner}: X must have {len(columns)} columns, as described, not {points.shape[1]}."
        )
    required = [at for at, each in enumerate(columns) if not each.nullable]
    points = points[~np.isnan(points[:, required]).any(axis=1)]
    codes = np.empty(points.shape, np.int64, order="F")
    for at, each in enumerate(columns):
        codes[:, at] = each.codes(points[:, at], bins)
    return codes


def _named(owner: str, X: Any, columns: tuple[ColumnSpec, ...]) -> Any:
    """The described columns of a table that has their names; anything else as it is."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not all(isinstance(each, str) for each in names):
        return X
    wanted = [each.name for each in columns]
    missing = [each for each in wanted if each not in list(names)]
    if missing:
        raise ValueError(f"{owner}: X has no column {missing[0]!r}.")
    return X.select(wanted) if hasattr(X, "select") else X[wanted]

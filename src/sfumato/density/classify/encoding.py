"""Public encodings of a classifier's input: cells of columns, class labels and class priors.

Columns are cut into equal parts of the bounds, or into codes of categories. Classes are a sorted
list of plain numbers or texts. Priors are given, equal, or estimated from counts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.bounds import Pair
from sfumato.core.row_values import cells_of, number_of, numbers_of
from sfumato.core.validation import integer
from sfumato.errors import ParameterError

__all__ = [
    "COLUMNS",
    "LABELS",
    "LEVELS",
    "PRIORS",
    "Bins",
    "column_positions",
    "labels_of",
    "levels_of",
    "listed_positions",
    "positions_of",
    "prior_probabilities",
    "refuse_missing",
]


BLOCK = 2**10  # rows at a time: they stay in the cache


class _Levels:
    """Valid levels: one integer per column, the number of codes, 0 for a numeric column."""

    def check(self, owner: str, name: str, value: Any) -> tuple[int, ...]:
        if not isinstance(value, tuple | list) or not value:
            raise ParameterError.of(owner, name, "must be integers, one per column.")
        return tuple(integer(0, 2**20).check(owner, name, one) for one in value)

    def bad(self) -> list[Any]:
        return [None, 3, (), (-1,), (0.5,), ("many",)]


LEVELS = _Levels()


class _Columns:
    """Valid columns: None, or a list of positions or names."""

    def check(self, owner: str, name: str, value: Any) -> tuple[int | str, ...] | None:
        if value is None:
            return None
        if isinstance(value, str) or not np.iterable(value):
            problem = f"must be None or a list of columns, by number or name, not {value!r}."
            raise ParameterError.of(owner, name, problem)
        return tuple(
            str(one) if isinstance(one, str) else integer(0).check(owner, name, one)
            for one in value
        )

    def bad(self) -> list[Any]:
        return [3, "all", [-1], [0.5]]


COLUMNS = _Columns()


@dataclass(frozen=True)
class Bins:
    """The cells of all columns, one column after the other.

    Parameters: bounds, (low, high) with a number per column; bins, equal parts of a numeric column;
    levels, the number of codes 0, 1, ... of a categorical column, 0 for a numeric one. Values
    outside the bounds count in the nearest cell.

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
        """Number of cells of each column."""
        levels = np.array(self.levels)
        return np.asarray(np.where(levels > 0, levels, self.bins))

    @cached_property
    def starts(self) -> np.ndarray:
        """The first cell of each column."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    @property
    def total(self) -> int:
        """Number of cells of all columns."""
        return int(self.sizes.sum())

    @property
    def columns(self) -> int:
        return len(self.levels)

    @cached_property
    def numeric(self) -> np.ndarray:
        """The cells of the numeric columns, one column per row."""
        positions = np.flatnonzero(np.array(self.levels) == 0)
        return np.asarray(self.starts[positions][:, None] + np.arange(self.bins))

    def codes(self, points: np.ndarray) -> np.ndarray:
        """The cell of every value."""
        low, high, shift, length, parts, last = self._steps
        out = np.empty(points.shape, np.int64, order="F")  # each column is read by itself
        for start in range(0, len(points), BLOCK):
            block = slice(start, start + BLOCK)
            scaled = np.maximum(points[block], low, dtype=np.float64)
            np.minimum(scaled, high, out=scaled)  # so nothing overflows
            scaled -= shift
            scaled /= length
            scaled *= parts
            np.minimum(scaled, last, out=scaled)
            # None is below 0, so that an integer is made as by `floor`.
            np.add(scaled.astype(np.int64), self.starts, out=out[block])
        return out

    @cached_property
    def _steps(self) -> tuple[np.ndarray, ...]:
        """Bounds, and the shift, length, number of parts and last part of each column."""
        low, high = (np.array(side) for side in self.bounds)
        category = np.array(self.levels) > 0
        low = np.where(category, np.maximum(low, 0.0), low)
        shift, length = np.where(category, 0.0, low), np.where(category, 1.0, high - low)
        return low, high, shift, length, np.where(category, 1.0, self.bins), self.sizes - 1.0

    def sums(self, cells: np.ndarray) -> np.ndarray:
        """The sum of each column's cells, along the last axis."""
        return np.asarray(np.add.reduceat(cells, self.starts, axis=-1))

    def per_cell(self, columns: np.ndarray) -> np.ndarray:
        """One number per column repeated for each of its cells, along the last axis."""
        return np.repeat(columns, self.sizes, axis=-1)


def column_positions(
    owner: str, categorical: Any, names: list[str], columns: int
) -> tuple[int, ...] | None:
    """The positions of these columns, each given by position or by its name in X."""
    if categorical is None:
        return None
    unknown = [one for one in categorical if isinstance(one, str) and one not in names]
    if unknown:
        known = "has no such column" if names else "has no names of columns; give its number"
        raise ValueError(f"{owner}: categorical names {unknown[0]!r}, and X {known}.")
    return tuple(
        names.index(one)
        if isinstance(one, str)
        else integer(0, columns - 1).check(owner, "categorical", one)
        for one in categorical
    )


def levels_of(owner: str, categorical: Any, bounds: Pair) -> tuple[int, ...]:
    """Number of codes of each column: high + 1 for the named ones, which must begin at 0."""
    columns = len(bounds[0])
    levels = [0] * columns
    for column in () if categorical is None else categorical:
        position = integer(0, columns - 1).check(owner, "categorical", column)
        low, high = bounds[0][position], bounds[1][position]
        if low != 0 or high != int(high):
            raise ValueError(
                f"{owner}: bounds of column {position}, which is categorical, must be 0 and the "
                f"largest code, an integer, not {low!r} and {high!r}."
            )
        levels[position] = int(high) + 1
    return tuple(levels)


class _Labels:
    """Valid classes: a list of distinct plain numbers or texts, returned sorted."""

    def check(self, owner: str, name: str, value: Any) -> tuple[Any, ...]:
        wanted = "must be a list of classes, integers or texts, none twice"
        if isinstance(value, str | bytes) or not np.iterable(value):
            raise ParameterError.of(owner, name, f"{wanted}, not {value!r}.")
        given = [one.item() if isinstance(one, np.generic) else one for one in value]
        plain = all(isinstance(one, bool | int | float | str) and one == one for one in given)
        if not given or not plain or len({type(one) for one in given}) > 1:
            raise ParameterError.of(owner, name, f"{wanted}, all of one type.")
        if len(set(given)) < len(given):
            raise ParameterError.of(owner, name, f"{wanted}.")
        return tuple(sorted(given))

    def bad(self) -> list[Any]:
        return ["ab", 3, [], [1, 1], [1, "a"], [float("nan")], [[1]]]


LABELS = _Labels()


def labels_of(classes: np.ndarray) -> tuple[Any, ...]:
    """Sorted classes as plain Python values."""
    return tuple(np.asarray(classes).tolist())


def refuse_missing(owner: str, y: Any) -> None:
    """Raise if a row has no label: None, NaN or a null of pandas or Arrow."""
    try:
        nulls = pa.array(y, from_pandas=True).is_null(nan_is_null=True)
    except (pa.ArrowException, TypeError, ValueError):
        return  # no column of one type, which is refused elsewhere
    missing = np.asarray(nulls)
    if missing.any():
        raise ValueError(
            f"{owner}: y must hold a label in every row; row {int(missing.argmax())} holds NaN or "
            "none. Drop such rows or give them a label first."
        )


def listed_positions(owner: str, y: Any, classes: tuple[Any, ...]) -> np.ndarray:
    """The index of every row's class in the public list, -1 if not listed; none is refused.

    An index depends on that label alone, and not on the type that a container gives to all labels
    because of one: 7, 7.0, "7" and "7.0" are one class, listed as number or text. If the list
    itself distinguishes such texts ("1" and "01"), labels are compared as they are written.
    Parameters: owner, named in errors; y, a column; classes, sorted, of one type.

    >>> listed_positions("example", ["b", None, "unlisted", "a"], ("a", "b")).tolist()
    [1, -1, -1, 0]
    """
    numbers = np.array([number_of(label) for label in classes])
    if isinstance(classes[0], str):
        return _by_text(cells_of(y), classes, numbers)
    if len(set(numbers.tolist())) < len(classes):
        raise ValueError(f"{owner}: classes must be numbers that differ as floats.")
    found = numbers_of(y)
    positions = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
    return np.where(numbers[positions] == found, positions, -1)


def _by_text(cells: list[Any], classes: tuple[Any, ...], numbers: np.ndarray) -> np.ndarray:
    """Indices of labels in a list of texts."""
    texts = {label: position for position, label in enumerate(classes)}
    finite = [number for number in numbers.tolist() if np.isfinite(number)]
    valued = {number: position for position, number in enumerate(numbers.tolist())}
    valued = valued if len(set(finite)) == len(finite) else {}
    known: dict[str, int] = {}

    def position(cell: Any) -> int:
        if type(cell) is not str:
            return _position(cell, texts, valued)
        if cell not in known:
            known[cell] = _position(cell, texts, valued)
        return known[cell]

    return np.fromiter(map(position, cells), np.int64, len(cells))


def _position(cell: Any, texts: dict[Any, int], valued: dict[float, int]) -> int:
    """Index of a label as it is written, else by its value, else as an integer is written."""
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    if isinstance(text, str) and text in texts:
        return texts[text]
    number = number_of(cell)
    if not np.isfinite(number):
        return -1
    integer = str(int(number)) if number == int(number) else ""
    return valued.get(number, texts.get(integer, -1))


def positions_of(owner: str, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The index of every row's class in the list; raises for a label that is not listed."""
    positions = np.searchsorted(classes, y)
    known = positions < len(classes)
    known[known] = classes[positions[known]] == y[known]
    if not known.all():
        raise ValueError(
            f"{owner}: y holds a label that is not in classes, at row {int(known.argmin())}; name "
            "all of them, or drop such rows first."
        )
    return np.asarray(positions)


class _Priors:
    """Valid priors: None, "estimated", or one number above 0 per class."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if value is None or (isinstance(value, str) and value == "estimated"):
            return value
        try:
            weights = tuple(map(float, value))
        except (TypeError, ValueError):
            weights = ()
        if not weights or not all(0 < weight < np.inf for weight in weights):
            wanted = "None, 'estimated' or one number above 0 per class"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r}.")
        return weights

    def bad(self) -> list[Any]:
        return ["equal", (), (0.0, 1.0), (-1, 2), 3, (float("nan"), 1), (float("inf"), 1)]


PRIORS = _Priors()


def prior_probabilities(owner: str, priors: Any, sizes: np.ndarray) -> np.ndarray:
    """The prior probability of every class, summing to 1; sizes are counted or released.

    >>> prior_probabilities("example", "estimated", np.array([30.0, 10.0]))
    array([0.75, 0.25])
    """
    if priors is None:
        weights = np.ones(sizes.size)
    else:
        weights = sizes if isinstance(priors, str) else np.array(priors)
    if weights.size != sizes.size:
        raise ValueError(
            f"{owner}: priors must be one number per class, {sizes.size}, not {weights.size}."
        )
    return np.asarray(weights / weights.sum())

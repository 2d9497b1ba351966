"""Features: what is known of items or users besides who used what: texts, categories, numbers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import ids_of, kind_of, positions, unique
from sfumato.core.ids import numbers as finite_numbers
from sfumato.core.tables import Page, Table, described
from sfumato.core.typing import Ids
from sfumato.errors import ParameterError

__all__ = ["CategoryColumn", "Features"]

OWNER = "Features"
SEVERAL = (list, tuple, set, frozenset, np.ndarray)  # types of cells with several values


class CategoryColumn(NamedTuple):
    """A categorical column whose cells have any number of values.

    Made by `Features`.

    Parameters
    ----------
    starts : ndarray of shape (n + 1,)
        Offsets: the values of row r are those at ``codes[starts[r] : starts[r + 1]]``.
    codes : ndarray of shape (starts[-1],)
        Positions in `values`, each once per row.
    values : ndarray of shape (n_values,)
        The distinct values, as texts.

    Examples
    --------
    >>> films = Features([1, 2], categories={"genre": ["Drama", ["Drama", "War"]]})
    >>> films.categories["genre"].values
    array(['Drama', 'War'], dtype=object)
    """

    starts: np.ndarray
    codes: np.ndarray
    values: np.ndarray

    def __repr__(self) -> str:
        return described(self, rows=self.starts.size - 1, values=self.values.size)


class Features(Page, Table):
    """Features of items, or attributes of users: one row per id.

    Parameters
    ----------
    ids : array_like or scalar
        Distinct ids of the items or users: integers or text, as NumPy, Arrow, pandas, polars or a
        list.
    texts : array_like of str or None, default=None
        A text per row, such as a description; "" where there is none.
    categories : mapping of str to array_like or None, default=None
        Categorical columns by name. A cell is a text, an integer, a list of those, or None if it
        has no value; values are compared as texts.
    numbers : mapping of str to array_like or None, default=None
        Columns of finite numbers by name.
    separator : str or None, default=None
        What separates the values of a cell of the categorical columns, as "|" in "Action|Drama";
        None for cells that are one value.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        The ids, int64 or text.
    texts : ChunkedArray or Array of length n, or None
        The texts as an Arrow column.
    categories : dict of str to CategoryColumn
        The categorical columns.
    numbers : dict of str to ndarray
        The columns of numbers, float64.

    Notes
    -----
    **Guarantee.** No id occurs twice, all columns have one length, no text is missing, and numbers
    are finite. The printed form, also in a notebook, shows no rows; `to_pandas`, `to_polars` and
    `to_arrow` return them.

    Examples
    --------
    >>> films = Features(
    ...     ["alien", "heat"],
    ...     texts=["A crew meets a creature.", "A crew robs banks."],
    ...     categories={"genre": ["Horror|SciFi", "Crime"]},
    ...     separator="|",
    ... )
    >>> films
    Features(rows=2, texts=True, categories={'genre': 3})
    >>> films.positions(["heat", "up"])
    array([ 1, -1])
    """

    ids: np.ndarray
    texts: Any
    categories: dict[str, CategoryColumn]
    numbers: dict[str, np.ndarray]

    def __init__(
        self,
        ids: Ids,
        texts: Any = None,
        categories: Mapping[str, Any] | None = None,
        numbers: Mapping[str, Any] | None = None,
        *,
        separator: str | None = None,
    ) -> None:
        column = ids_of(ids, "ids")
        _check_distinct(column)
        made = None if texts is None else _text_column(texts)
        separator = _checked_separator(separator)
        sorts = {
            name: _categories(values, name, separator)
            for name, values in _named(categories, "categories").items()
        }
        measured = {
            name: finite_numbers(values, name).astype(np.float64)
            for name, values in _named(numbers, "numbers").items()
        }
        twice = sorted(sorts.keys() & measured.keys())
        if twice:
            raise ParameterError.of(
                OWNER, "numbers", f"must have other names than categories; {twice[0]!r} is in both."
            )
        if made is None and not sorts and not measured:
            raise ParameterError.of(
                OWNER, "texts", "must be given, or categories or numbers: there is no feature."
            )
        sizes = {} if made is None else {"texts": len(made)}
        sizes |= {name: each.starts.size - 1 for name, each in sorts.items()}
        sizes |= {name: each.size for name, each in measured.items()}
        for name, size in sizes.items():
            if size != column.size:
                raise ValueError(
                    f"{OWNER}: {name} must have one cell per id, {column.size}, not {size}."
                )
        self._set(column, made, sorts, measured)

    def _set(self, ids: np.ndarray, texts: Any, categories: Any, numbers: Any) -> None:
        self.ids, self.texts, self.categories, self.numbers = ids, texts, categories, numbers

    @property
    def kind(self) -> str:
        """Type of the ids: "integers" or "text"."""
        return kind_of(self.ids)

    def __len__(self) -> int:
        return int(self.ids.size)

    def __repr__(self) -> str:
        return described(self, **self._facts())

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rows": len(self), "texts": self.texts is not None}
        if self.categories:
            facts["categories"] = {n: each.values.size for n, each in self.categories.items()}
        if self.numbers:
            facts["numbers"] = list(self.numbers)
        return facts

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"id": self.ids}
        if self.texts is not None:
            columns["text"] = self.texts.to_pylist()
        for name, each in self.categories.items():
            cells = np.split(each.values[each.codes], each.starts[1:-1])
            columns[name] = [cell.tolist() for cell in cells[: len(self)]]
        return {**columns, **self.numbers}

    def positions(self, ids: Ids) -> np.ndarray:
        """Find the row of each id.

        Parameters
        ----------
        ids : array_like or scalar
            Ids of items or users.

        Returns
        -------
        ndarray of shape (n,)
            Rows from 0, int64; -1 for an unknown id.
        """
        return positions(ids_of(ids, "ids"), self.ids)

    def take(self, rows: Any) -> "Features":
        """Select rows by their positions.

        Parameters
        ----------
        rows : array_like of int
            Distinct row numbers from 0, in the order wanted.

        Returns
        -------
        Features
            The selected rows.
        """
        at = np.asarray(rows)
        fits = at.ndim == 1 and (not at.size or at.dtype.kind in "iu")
        if not fits or (at.size and not (at.min() >= 0 and at.max() < len(self))):
            raise ValueError(f"{OWNER}: rows must be integers from 0 to {len(self) - 1}.")
        at = at.astype(np.int64)
        ids = self.ids[at]
        _check_distinct(ids)
        taken = type(self).__new__(type(self))
        texts = None if self.texts is None else self.texts.take(pa.array(at))
        sorts = {name: _taken(each, at) for name, each in self.categories.items()}
        taken._set(ids, texts, sorts, {name: each[at] for name, each in self.numbers.items()})
        return taken

    def merge(self, other: "Features") -> "Features":
        """Append the rows of another table with the same columns.

        Parameters
        ----------
        other : Features
            Rows to append; those with an id that is here too replace it.

        Returns
        -------
        Features
            The rows of both.
        """
        if not isinstance(other, Features):
            raise TypeError(f"{OWNER}: other must be Features, not {type(other).__name__}.")
        if self._facts_of_columns() != other._facts_of_columns():
            raise ValueError(
                f"{OWNER}: cannot merge, the columns differ: {self._facts_of_columns()} here and "
                f"{other._facts_of_columns()} there."
            )
        if len(self) and len(other) and self.kind != other.kind:
            raise TypeError(f"{OWNER}: cannot merge, ids are {self.kind} and {other.kind}.")
        mine = self.take(np.flatnonzero(other.positions(self.ids) < 0))
        merged = type(self).__new__(type(self))
        texts = None
        if self.texts is not None:
            texts = pa.chunked_array([*_chunks(mine.texts), *_chunks(other.texts)], pa.string())
        merged._set(
            np.concatenate([mine.ids, other.ids]) if len(mine) else other.ids,
            texts,
            {name: _joined(each, other.categories[name]) for name, each in mine.categories.items()},
            {name: np.append(each, other.numbers[name]) for name, each in mine.numbers.items()},
        )
        return merged

    def _facts_of_columns(self) -> list[str]:
        texts = [] if self.texts is None else ["texts"]
        return [*texts, *sorted(self.categories), *sorted(self.numbers)]


def _check_distinct(ids: np.ndarray) -> None:
    if unique(ids).size == ids.size:
        return
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order][1:] == ids[order][:-1]].min()
    raise ValueError(
        f"{OWNER}: ids: row {again} repeats an id; give each once, or drop the earlier rows."
    )


def _named(columns: Any, name: str) -> dict[str, Any]:
    """Return columns by name; a name must be a text without ":", which separates it from values."""
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        raise TypeError(f"{OWNER}: {name} must be a mapping of names to columns.")
    for each in columns:
        if not isinstance(each, str) or not each or ":" in each or each in ("id", "text"):
            raise ParameterError.of(
                OWNER, name, f"must be named by texts without ':', not 'id' or 'text': {each!r}."
            )
    return dict(columns)


def _checked_separator(separator: Any) -> str | None:
    if separator is not None and (not isinstance(separator, str) or not separator):
        raise ParameterError.of(OWNER, "separator", f"must be a text or None, not {separator!r}.")
    return separator


def _text_column(texts: Any) -> pa.ChunkedArray:
    """Return texts as an Arrow column; raise where one is missing or no text."""
    column = _arrow(texts, "texts")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    try:
        if not _is_text(column.type):
            raise TypeError(f"{OWNER}: texts must be texts, not {column.type}.")
        column = column.cast(pa.string())
    except pa.ArrowException:
        raise ValueError(f"{OWNER}: texts must be UTF-8 and below 2 GiB together.") from None
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise ParameterError.of(
            OWNER, "texts", f"must not be missing, as in row {row}; give '' or drop the row."
        )
    return column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _arrow(values: Any, name: str) -> pa.ChunkedArray:
    """Return a column of any library as an Arrow column; NaN of pandas is null."""
    if isinstance(values, str | bytes):
        values = [values]
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        if not isinstance(values, pa.Array):
            if hasattr(values, "__arrow_c_stream__"):
                return pa.chunked_array(values)
            values = _listed(values)
            values = pa.array(values, from_pandas=True)
        return pa.chunked_array([values])
    except (pa.ArrowException, TypeError, ValueError):
        raise TypeError(
            f"{OWNER}: {name}: the cells are of types that do not go together."
        ) from None


def _listed(values: Any) -> Any:
    """Return cells that are values or lists of values as lists, where any is a list."""
    if hasattr(values, "dtype") and values.dtype != object:
        return values
    cells = list(values)
    if not any(isinstance(cell, SEVERAL) for cell in cells):
        return cells
    return [_as_list(cell) for cell in cells]


def _as_list(cell: Any) -> list[Any] | None:
    """Return the values of a cell, None where it is missing; sets in an order that is always so."""
    if isinstance(cell, set | frozenset):
        return sorted(cell, key=str)
    if isinstance(cell, SEVERAL):
        return list(cell)
    return None if cell is None or cell != cell else [cell]


def _categories(values: Any, name: str, separator: str | None) -> CategoryColumn:
    column = _arrow(values, name).combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    rows = len(column)
    at = np.arange(rows)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        at = np.asarray(pc.list_parent_indices(column), np.int64)
        column = pc.list_flatten(column)
    try:
        words = column.cast(pa.large_string())
    except pa.ArrowException:
        raise TypeError(
            f"{OWNER}: {name}: cells must be texts, integers or lists of them, not {column.type}."
        ) from None
    if separator is not None:
        cells = pc.split_pattern(words.fill_null(""), separator)
        at = at[np.asarray(pc.list_parent_indices(cells), np.int64)]
        words = pc.list_flatten(cells)
    words = pc.utf8_trim_whitespace(words.fill_null(""))
    there = np.asarray(pc.not_equal(words, ""))
    return _coded(at[there], words.filter(pa.array(there)), rows)


def _coded(at: np.ndarray, words: pa.Array, rows: int) -> CategoryColumn:
    """Return the column whose row at[i] has the value words[i], each value once per row."""
    coded = words.dictionary_encode()
    codes = np.asarray(coded.indices, np.int64)
    width = max(len(coded.dictionary), 1)
    # A value that a cell repeats counts once; the order of values in a cell means nothing.
    pairs = np.unique(at * width + codes)
    starts = np.concatenate([[0], np.cumsum(np.bincount(pairs // width, minlength=rows))])
    values = np.array(coded.dictionary.to_numpy(zero_copy_only=False), object)
    return CategoryColumn(starts.astype(np.int64), (pairs % width).astype(np.int32), values)


def _pairs(column: CategoryColumn) -> tuple[np.ndarray, pa.Array]:
    """Return row and value of each entry."""
    at = np.repeat(np.arange(column.starts.size - 1), np.diff(column.starts))
    return at, pa.array(column.values[column.codes], pa.large_string())


def _taken(column: CategoryColumn, rows: np.ndarray) -> CategoryColumn:
    counts = np.diff(column.starts)[rows]
    starts = np.concatenate([[0], np.cumsum(counts)])
    entries = np.repeat(column.starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
    return CategoryColumn(starts, column.codes[entries], column.values)


def _joined(one: CategoryColumn, other: CategoryColumn) -> CategoryColumn:
    rows = one.starts.size - 1
    (at, words), (more_at, more) = _pairs(one), _pairs(other)
    both = pa.concat_arrays([words, more])
    return _coded(np.append(at, more_at + rows), both, rows + other.starts.size - 1)


def _chunks(texts: Any) -> list[Any]:
    return texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]

"""Read features of items or attributes of users from any file or frame."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.row_values import strict
from sfumato.core.validation import one_of
from sfumato.data.features import Features
from sfumato.data.readers import delimited, formats
from sfumato.data.readers.base import listed, missing_column
from sfumato.data.readers.batches import are_paths, matches, read_batches
from sfumato.data.tables import names_of
from sfumato.errors import ParameterError

__all__ = ["read_features"]

OWNER = "read_features"
MISSING = one_of(("refuse", "empty"))


def read_features(
    source: Any,
    *,
    ids: str | int = 0,
    texts: str | int | Sequence[str | int] | None = None,
    categories: str | int | Sequence[str | int] | Mapping[str, str | int] | None = None,
    numbers: str | int | Sequence[str | int] | Mapping[str, str | int] | None = None,
    separator: str | None = None,
    missing: str = "refuse",
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
) -> Features:
    """Read features of items or attributes of users from files or frames.

    Parameters
    ----------
    source : path_like, list of paths, table, frame or dict of columns
        A path, a glob or a list of them; an Arrow table, a pandas or polars frame, or a dict of
        columns. Files are .parquet, .arrow, .npy, .npz, .json, .jsonl or .ndjson; any other name is
        delimited text. Text may be compressed by gzip.
    ids : str or int, default=0
        Name, or position from 0, of the column of ids.
    texts : str, int, sequence or None, default=None
        Column of texts; the texts of several columns are joined by a line break.
    categories : str, int, sequence, mapping or None, default=None
        Categorical columns: one, several, or a mapping of names to columns. At least one column of
        texts, categories or numbers must be given.
    numbers : str, int, sequence, mapping or None, default=None
        Columns of finite numbers, in the same way.
    separator : str or None, default=None
        What separates the values of a categorical cell, as "|" in "Action|Drama"; None for cells
        that are one value.
    missing : {"refuse", "empty"}, default="refuse"
        "refuse" raises for a row without text; "empty" reads it as "".
    delimiter : str or None, default=None
        Delimiter of the fields of text, 1 to 4 characters; None detects it.
    header : bool or None, default=None
        Whether line 1 contains the names of the columns; None detects it.
    encoding : {"utf-8", "latin-1", "utf-16"} or None, default=None
        Encoding of text; None tries UTF-8, then Latin-1.

    Returns
    -------
    Features
        The features, in the order of rows. Ids of delimited text are integers if all are written
        as integers without leading zeros; otherwise text.

    Raises
    ------
    ValueError
        If a column is not found, a row is malformed, or an id occurs twice. The message names file,
        line or row, never a value.

    Examples
    --------
    >>> table = {"film": [1, 2], "plot": ["A crew meets a creature.", "A crew robs banks."]}
    >>> read_features(table, texts="plot")
    Features(rows=2, texts=True)
    """
    missing = MISSING.check(OWNER, "missing", missing)
    written = formats.TextFormat.checked(OWNER, delimiter, header, encoding)
    words = [] if texts is None else list(_chosen(texts, "texts").values())
    sorts, measured = (
        _chosen(each, name) for each, name in ((categories, "categories"), (numbers, "numbers"))
    )
    if not words and not sorts and not measured:
        raise ParameterError.of(
            OWNER, "categories", "must name columns, or texts or numbers must: features are needed."
        )
    wanted = [ids, *words, *sorts.values(), *measured.values()]
    read = _read(source, wanted, written)
    known, columns = read[0], iter(read[1:])
    text = _joined_texts([next(columns) for _ in words], missing) if words else None
    return Features(
        known,
        text,
        {name: next(columns) for name in sorts},
        {name: _numbers(next(columns), name) for name in measured},
        separator=separator,
    )


def _chosen(columns: Any, name: str) -> dict[str, str | int]:
    """Return the requested columns by the names that the features get."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        chosen = dict(columns)
    else:
        several = [columns] if isinstance(columns, str | int) else list(columns)
        chosen = {each if isinstance(each, str) else f"column {each}": each for each in several}
    for each in chosen.values():
        _check_column(each, name)
    return chosen


def _check_column(column: Any, name: str) -> None:
    if isinstance(column, bool) or not isinstance(column, str | int):
        raise TypeError(f"{OWNER}: {name} must be names of columns or positions, from 0.")


def _read(source: Any, wanted: list[Any], written: formats.TextFormat) -> list[Any]:
    """Return the wanted columns of all files, or of the frame."""
    _check_column(wanted[0], "ids")
    if not isinstance(source, str | os.PathLike) and not are_paths(source):
        return _of_frame(source, wanted)
    parts: list[list[Any]] = []
    paths = [source] if isinstance(source, str | os.PathLike) else source
    for path in (found for each in paths for found in matches(each)):
        form = formats.form_of(path)
        if formats.is_typed(path) or (form is not None and form.layout):
            parts.append(_of_typed_file(path, wanted))
        else:
            parts.append(_of_lines(path, wanted, written))
    columns = [
        pa.chunked_array([c for part in each for c in part.chunks]) for each in _across(parts)
    ]
    if columns[0].type == pa.string():
        integers = strict(columns[0].combine_chunks(), pa.int64())
        columns[0] = columns[0] if integers is None else integers
    return columns


def _across(parts: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Return the chunks of each column over all files, of one type."""
    columns = list(zip(*parts, strict=True))
    for column in columns:
        if len({part.type for part in column}) > 1:
            raise TypeError(f"{OWNER}: a column has different types in two of the files.")
    return columns


def _positions(name: str, names: Sequence[str], wanted: list[Any]) -> list[int]:
    positions = []
    for column in wanted:
        if isinstance(column, str):
            if not any(names):
                raise ValueError(
                    f"{name}: has no header line; give positions of columns from 0, or header=True."
                )
            if column not in names:
                raise missing_column(name, column, names)
            column = list(names).index(column)
        elif not 0 <= column < len(names):
            raise ValueError(f"{name}: there is no column {column}; {listed(names)}.")
        positions.append(column)
    return positions


def _of_frame(source: Any, wanted: list[Any]) -> list[Any]:
    if isinstance(source, Mapping):
        names, columns = list(map(str, source)), list(source.values())
    elif hasattr(source, "iloc"):
        names = list(map(str, source.columns))
        columns = [source.iloc[:, at] for at in range(len(names))]
    elif isinstance(source, pa.Table) or hasattr(source, "__arrow_c_stream__"):
        table = pa.table(source)
        names, columns = list(table.schema.names), table.columns
    else:
        raise TypeError(
            f"{OWNER}: the source must be a path, a list of paths, a frame, a table or a dict of "
            f"columns, not {type(source).__name__}."
        )
    return [columns[at] for at in _positions("the frame", names, wanted)]


def _of_typed_file(path: Path, wanted: list[Any]) -> list[Any]:
    names = names_of(path)
    chosen = [names[at] for at in _positions(str(path), names, wanted)]
    batches = list(read_batches(path, chosen))
    if not batches:
        raise ValueError(f"{path}: has no rows.")
    return [pa.chunked_array([batch.column(name) for batch in batches]) for name in chosen]


def _of_lines(path: Path, wanted: list[Any], written: formats.TextFormat) -> list[Any]:
    """Read delimited text, again with another dialect where broken lines suggest one."""
    named = any(isinstance(each, str) for each in wanted)
    header = True if written.header is None and named else written.header
    dialect = delimited.sniffed(path, written.delimiter, header, written.encoding)
    positions = _positions(str(path), dialect.names, wanted)
    distinct = list(dict.fromkeys(positions))
    while True:
        rejects: delimited.Rejects = []
        batches = list(delimited.texts(path, dialect, distinct, rejects))
        other = delimited.with_other_guess(dialect, rejects, written.encoding)
        if other == dialect or not rejects:
            break
        dialect = other
    if rejects:
        line, reason = rejects[0]
        line = delimited.line_of_reject(path, dialect, line)
        raise ValueError(f"{path}: line {line}: {reason}; correct it.")
    if not batches:
        raise ValueError(f"{path}: has no rows.")
    read = [pa.chunked_array(each) for each in zip(*(b.columns for b in batches), strict=True)]
    return [read[distinct.index(at)].cast(pa.string()) for at in positions]


def _joined_texts(columns: list[Any], missing: str) -> Any:
    """Join the texts of several columns; a text is missing where all of them are."""
    if len(columns) == 1 and missing == "refuse":
        return columns[0]
    arrow = [
        pa.chunked_array([pa.array(each)]) if not isinstance(each, pa.ChunkedArray) else each
        for each in columns
    ]
    words = [each.cast(pa.string()).combine_chunks() for each in arrow]
    joined, none = words[0], pc.is_null(words[0])
    for each in words[1:]:
        # Rows that are null in all columns are dropped by binary_join_element_wise itself.
        pair = joined.fill_null(""), each.fill_null("")
        joined = pc.utf8_trim(pc.binary_join_element_wise(*pair, "\n"), "\n")
        none = pc.and_(none, pc.is_null(each))
        joined = pc.if_else(none, pa.scalar(None, pa.string()), joined)
    return joined.fill_null("") if missing == "empty" else joined


def _numbers(column: Any, name: str) -> Any:
    """Return numbers that are written as text as numbers."""
    if not isinstance(column, pa.ChunkedArray) or column.type != pa.string():
        return column
    try:
        return pc.utf8_trim_whitespace(column).cast(pa.float64())
    except pa.ArrowException:
        raise ValueError(
            f"{OWNER}: {name}: a cell is no number; correct it, or name it under categories."
        ) from None

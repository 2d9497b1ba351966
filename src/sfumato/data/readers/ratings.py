"""Read interactions of any file or frame: an invalid row raises with its line, or is skipped."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from sfumato.core.ids import among
from sfumato.core.validation import flag, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.data.readers import (
    arrays,
    arrow,
    delimited,
    formats,
    plain_lines,
    rating_columns,
    text_files,
)
from sfumato.data.readers.base import ReadingReport
from sfumato.data.readers.batches import are_paths, matches, read_batches
from sfumato.data.readers.rating_columns import (
    ROLES,
    Gathered,
    RequestedColumns,
    joined_ids,
    positions_of,
)
from sfumato.errors import ParameterError

__all__ = ["ReadingReport", "chosen_columns", "read_interactions"]

OWNER = "read_interactions"
SKIP = "correct it, or give on_error='skip'"  # the remedy that the reader itself has
ON_ERROR = one_of(("raise", "skip"))
DUPLICATES = one_of(("last", "keep"))
INVALID = one_of(("refuse", "drop"))


def read_interactions(
    source: Any,
    *,
    users: str | int | None = None,
    items: str | int | None = None,
    ratings: str | int | bool | None = None,
    times: str | int | bool | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    on_error: str = "raise",
    duplicates: str = "last",
    guess: bool = True,
    invalid: str = "refuse",
) -> Interactions:
    """Read interactions, with or without ratings, from files or frames.

    The columns, the delimiter and the encoding are detected unless given. For data that will be
    released privately use ``invalid="drop"``.

    Parameters
    ----------
    source : path_like, list of paths, table, frame, dict of columns or iterator
        A path, a glob or a list of them; an Arrow table, reader or dataset; a pandas or polars
        frame; a DuckDB relation; a dict of columns; or an iterator of those. Files are .parquet,
        .arrow, .json, .jsonl, .ndjson, .npy (a matrix of columns) or .npz (named columns, or a
        sparse matrix of users and items); any other name is delimited text. Text may be compressed
        by gzip.
    users : str, int or None, default=None
        Name, or position from 0, of the column of users. None detects it by its usual names
        (user_id, userId, reviewer, ...); in a file without a header it is column 0.
    items : str, int or None, default=None
        Name or position of the column of items. None detects it (item_id, movieId, ISBN, ...);
        without a header it is column 1.
    ratings : str, int, bool or None, default=None
        Name or position of the column of ratings or counts. None detects it (rating, score, stars,
        plays, count, weight, ...), if there is one; without a header it is column 2 of three or
        more. False reads no ratings.
    times : str, int, bool or None, default=None
        Name or position of the column of times. None detects it (timestamp, date, ...), if there is
        one; without a header it is column 3. False reads no times.
    delimiter : str or None, default=None
        Delimiter of the fields of text, 1 to 4 characters; None detects it.
    header : bool or None, default=None
        Whether line 1 contains the names of the columns; None detects it.
    encoding : {"utf-8", "latin-1", "utf-16"} or None, default=None
        Encoding of text; None tries UTF-8, then Latin-1.
    on_error : {"raise", "skip"}, default="raise"
        "raise" stops at an invalid row with its file, line and reason; "skip" leaves invalid rows
        out and counts them. Malformed JSON always raises.
    duplicates : {"last", "keep"}, default="last"
        "last" keeps only the latest rating of a user for an item; "keep" keeps all. A private model
        needs "keep": if rows replaced each other, adding one row would change two.
    guess : bool, default=True
        False for private use: no row changes how others are read. The encoding is then UTF-8 unless
        given, only the first row determines delimiter and columns, times are read only if given,
        and a broken quote always raises.
    invalid : {"refuse", "drop"}, default="refuse"
        "drop", for private use, is stricter than all options above; see Notes. "refuse" follows
        `on_error`.

    Returns
    -------
    Interactions
        The interactions. Its `report` counts the rows that were read, kept and left out.

    Raises
    ------
    ValueError
        If a row is invalid and `on_error` is "raise", or if a column is not found. The message
        names file, line and reason, never a value.

    Notes
    -----
    **Guarantee.** A row is invalid if its user or item is missing, if its rating is not a finite
    number, or if it has too many or too few fields. Of several ratings of one item by one user the
    latest by time, else by row, is kept, unless ``duplicates="keep"``. Ids of delimited text are
    integers if all of them are written as integers without leading zeros; otherwise text.

    With ``invalid="drop"`` every line is read by itself (a quote ends with its line). Whatever a
    line contains, it is a row, or it is left out and counted in `report`, which is for the curator
    only. Nothing is detected from rows, no row raises, duplicates are kept and times are not read.
    The line of names is taken to be public. For a file without one give ``header=False`` and the
    delimiter; otherwise the first line, from which they are detected, is taken to be public too.
    Without either, rows have ratings in column 2 unless ``ratings=False``.

    Examples
    --------
    >>> columns = {"user": [7, 7, 8], "item": [1, 1, 2], "rating": [5, 3, 4]}
    >>> interactions = read_interactions(columns)
    >>> interactions
    Interactions(rows=2, users=2, items=2, times=False)
    >>> print(interactions.report)
    3 rows read, 2 kept; 1 older ratings of a pair dropped.
    >>> read_interactions({"user": [7, 8], "item": [1, 2]}).has_ratings
    False
    """
    requested: RequestedColumns = {
        "users": users,
        "items": items,
        "ratings": ratings,
        "times": times,
    }
    if INVALID.check(OWNER, "invalid", invalid) == "drop":
        given, skipped = (
            formats.TextFormat.checked(OWNER, delimiter, header, encoding),
            Counter[str](),
        )
        requested = rating_columns.explicit_times(requested, skip=True)
        pieces = _dropping(source, requested, given, skipped)
        return rating_columns.joined(pieces, skipped)
    written = _Written(
        formats.check_delimiter(OWNER, delimiter),
        optional(flag).check(OWNER, "header", header),
        formats.ENCODING.check(OWNER, "encoding", encoding),
        flag.check(OWNER, "guess", guess),
    )
    skip = ON_ERROR.check(OWNER, "on_error", on_error) == "skip"
    keep = DUPLICATES.check(OWNER, "duplicates", duplicates) == "keep"
    requested = requested if guess else rating_columns.explicit_times(requested, skip)
    parts, encodings = [], {}
    for part, name, encoded in _parts(source, requested, written, skip):
        parts.append(part)
        if encoded:
            encodings[name] = encoded
    return _together(parts, encodings, keep)


def chosen_columns(path: Path, options: dict[str, Any]) -> dict[str, str]:
    """Return the name, or else the number, of the column that is read in each role.

    options: those of `read_interactions` that were given. Of a private file only what is public is
    looked at.
    """
    requested: RequestedColumns = {role: options.get(role) for role in ROLES}
    private = options.get("invalid") == "drop" or not options.get("guess", True)
    if private:
        requested = {**requested, "times": requested["times"] or False}
    names: Sequence[str] = ()
    if formats.is_typed(path):
        names = _typed_file(path)[1]
    elif _is_json(path):
        if private:
            return {role: str(name) for role, name in requested.items() if name}
        names = text_files.json_names(path, cast(formats.Form, formats.form_of(path)))
    else:
        given = formats.TextFormat(
            options.get("delimiter"), options.get("header"), options.get("encoding")
        )
        names = rating_columns.dialect_of(path, requested, given, private=private).names
    found = positions_of(str(path), names, requested)
    return {role: names[at] or str(at) for role, at in found.items()}


def _dropping(
    source: Any,
    requested: RequestedColumns,
    given: formats.TextFormat,
    skipped: Counter[str],
) -> Iterator[rating_columns.Columns]:
    """Yield columns of users, items and ratings, piece by piece, for `invalid="drop"`."""
    if isinstance(source, Iterator) and not isinstance(source, pa.RecordBatchReader):
        for each in source:
            yield from _dropping(each, requested, given, skipped)
        return
    if not isinstance(source, str | os.PathLike) and not are_paths(source):
        yield from _typed_columns("the frame", source, _names(source), requested)
        return
    for each in [source] if isinstance(source, str | os.PathLike) else source:
        for path in matches(each):
            if formats.is_typed(path):
                yield from _typed_columns(str(path), *_typed_file(path), requested)
            elif _is_json(path):
                yield from rating_columns.json_rows(path, requested, skipped)
            else:
                yield from rating_columns.text_rows(path, requested, given, skipped)


def _typed_columns(
    name: str, source: Any, names: list[str], requested: RequestedColumns
) -> Iterator[rating_columns.Columns]:
    positions = positions_of(name, names, requested)
    if hasattr(source, "iloc"):
        yield {role: source.iloc[:, position] for role, position in positions.items()}
        return
    if isinstance(source, Mapping):
        columns = list(source.values())
        yield {role: columns[position] for role, position in positions.items()}
        return
    yield {role: [] for role in positions}
    for batch in read_batches(source, _own_names(source, names, positions)):
        yield dict(zip(positions, batch.columns, strict=True))


def _own_names(source: Any, names: list[str], positions: dict[str, int]) -> list[str]:
    """Names of the columns at these positions, also where a table has them only as numbers."""
    return [names[at] or source.column_names[at] for at in positions.values()]


class _Written:
    """Format of delimited text as far as given, and whether the remainder is detected."""

    def __init__(
        self, delimiter: str | None, header: bool | None, encoding: str | None, guess: bool
    ) -> None:
        self.delimiter, self.header, self.guess = delimiter, header, guess
        self.encoding = encoding if guess else encoding or "utf-8"


def _parts(
    source: Any, requested: RequestedColumns, written: _Written, skip: bool
) -> Iterator[tuple[Gathered, str, str]]:
    """Yield each file, or the frame, as gathered columns, with its name and text encoding."""
    if not isinstance(source, str | os.PathLike) and not are_paths(source):
        yield _frame(source, requested, skip), "the frame", ""
        return
    for each in [source] if isinstance(source, str | os.PathLike) else source:
        for path in matches(each):
            if formats.is_typed(path):
                rows, names = _typed_file(path)
                yield _table(rows, names, requested, skip, str(path)), str(path), ""
            elif _is_json(path):
                if not written.guess:
                    rating_columns.need_roles(path, requested, skip)
                yield _json(path, requested, skip), str(path), ""
            else:
                part, encoding = _lines(path, requested, written, skip)
                yield part, str(path), encoding


def _lines(
    path: Path, requested: RequestedColumns, written: _Written, skip: bool
) -> tuple[Gathered, str]:
    """Read a delimited file, again with another dialect where the rejects suggest one."""
    header = rating_columns.with_names(written.header, requested)
    rows = delimited.SNIFFED_ROWS if written.guess else 1
    dialect = delimited.sniffed(path, written.delimiter, header, written.encoding, rows)
    if not written.guess:
        rating_columns.need_names(path, dialect.header, skip)
    positions = positions_of(str(path), dialect.names, requested)
    rating_columns.check_header(path, header, dialect.names, positions)
    if plain := plain_lines.read(path, dialect, list(positions.values()), integers=2):
        return Gathered(positions, texts=True).accept(plain), dialect.encoding
    best: tuple[Gathered, delimited.Rejects, delimited.Dialect] | None = None
    while True:
        rejects: delimited.Rejects = []
        columns = delimited.texts(path, dialect, list(positions.values()), rejects)
        part = Gathered(positions, texts=True).take(columns)
        if best is None or len(rejects) < len(best[1]):
            best = part, rejects, dialect
        other = delimited.with_other_guess(dialect, rejects, written.encoding)
        if other == dialect or not written.guess:
            break
        dialect = other
    part, rejects, dialect = best
    if not skip:
        _stop_at_line(path, dialect, part.fault, rejects)
    elif not written.guess:
        _stop_at_line(path, dialect, None, rating_columns.hiding(rejects), rating_columns.REMEDY)
    part.rows += len(rejects)
    part.skipped.update(Counter(reason for _, reason in rejects))
    return part, dialect.encoding


def _stop_at_line(
    path: Path,
    dialect: delimited.Dialect,
    fault: tuple[int, str] | None,
    rejects: delimited.Rejects,
    remedy: str = SKIP,
) -> None:
    faults = [
        (delimited.line_of_reject(path, dialect, line), reason) for line, reason in rejects[:1]
    ]
    if fault:
        row, reason = fault
        faults.append((delimited.line_of_row(path, dialect, row), reason))
    if faults:
        # Of two in one line the reject is the cause: it moved the rows after it up by one.
        line, reason = min(faults, key=lambda fault: fault[0])
        sentence = f"{path}: line {line}: {reason}; {remedy}."
        if remedy == SKIP:
            raise ParameterError(sentence, owner=OWNER, parameter="on_error")
        raise ValueError(sentence)


def _stop_at_row(name: str, part: Gathered) -> None:
    if part.fault:
        row, reason = part.fault
        sentence = f"{name}: row {row} (from 0): {reason}; {SKIP}."
        raise ParameterError(sentence, owner=OWNER, parameter="on_error")


def _is_json(path: Path) -> bool:
    form = formats.form_of(path)
    return form is not None and bool(form.layout)


def _json(path: Path, requested: RequestedColumns, skip: bool) -> Gathered:
    form = formats.form_of(path)
    assert form is not None
    names = text_files.json_names(path, form)
    positions = positions_of(str(path), names, requested)
    chosen = [names[position] for position in positions.values()]
    # As texts, so that a rating that is no number is one bad row and not another type of column.
    batches = read_batches(path, chosen, text=chosen[2:])
    part = Gathered(positions, texts=False).take(batches)
    if not skip and part.fault and form.layout == "newline_delimited":
        dialect = delimited.Dialect("", False, (), gzip=form.gzip)
        _stop_at_line(path, dialect, part.fault, [])
    if not skip:
        _stop_at_row(str(path), part)
    return part


def _typed_file(path: Path) -> tuple[Any, list[str]]:
    """A file whose columns have types, or its table, and their names; "" for numbered ones."""
    if not formats.is_array(path):
        return path, arrow.names_of(path)
    table = arrays.table_of(path)
    numbered = [*map(str, range(table.num_columns))], [*arrays.SPARSE]
    names = table.column_names
    return table, [""] * len(names) if names in numbered else names


def _frame(source: Any, requested: RequestedColumns, skip: bool) -> Gathered:
    if isinstance(source, Iterator):
        first = next(source, None)
        if first is None:
            raise ValueError(f"{OWNER}: the stream is empty; a batch with columns is needed.")
        return _table(chain([first], source), _names(first), requested, skip)
    names = _names(source)
    if not hasattr(source, "iloc"):
        return _table(source, names, requested, skip)
    # Columns of pandas may be named by numbers; by position they can be read all the same.
    positions = positions_of("the frame", names, requested)
    roles = list(positions)
    part = source.iloc[:, list(positions.values())].set_axis(roles, axis=1)
    return _table(part, roles, dict.fromkeys(ROLES), skip)


def _names(source: Any) -> list[str]:
    if isinstance(source, Mapping):
        return list(map(str, source))
    if isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader | ds.Dataset):
        return list(source.schema.names)
    if hasattr(source, "columns"):
        return list(map(str, source.columns))
    raise TypeError(
        f"{OWNER}: the source must be a path, a list of paths, a frame, a table or an iterator of "
        f"those, not {type(source).__name__}."
    )


def _table(
    source: Any,
    names: list[str],
    requested: RequestedColumns,
    skip: bool,
    name: str = "the frame",
) -> Gathered:
    """Read a source whose columns have names and types."""
    positions = positions_of(name, names, requested)
    batches = read_batches(source, _own_names(source, names, positions))
    part = Gathered(positions, texts=False).take(batches)
    if not skip:
        _stop_at_row(name, part)
    return part


def _together(parts: list[Gathered], encodings: dict[str, str], keep: bool) -> Interactions:
    filled = [part for part in parts if part.columns["users"]] or parts
    timed = {"times" in part.columns for part in filled}
    if len(timed) > 1:
        raise ValueError(f"{OWNER}: some files have times and some have none; give times=False.")
    rated = rating_columns.check_ratings({"ratings" in part.columns for part in filled})
    found = Interactions(
        joined_ids(_drained(parts, "users")),
        joined_ids(_drained(parts, "items")),
        np.concatenate([np.empty(0), *_drained(parts, "ratings")]) if rated else None,
        np.concatenate(_drained(parts, "times") or [np.empty(0)]) if True in timed else None,
    )
    retained = found if keep else _latest(found)
    skipped = sum((part.skipped for part in parts), Counter[str]())
    rows = sum(part.rows for part in parts)
    report = ReadingReport(
        rows, len(retained), len(found) - len(retained), dict(skipped), encodings
    )
    retained.report = report
    return retained


def _drained(parts: list[Gathered], role: str) -> list[Any]:
    """Chunks of a column, removed from the parts so that memory is not used twice."""
    return [chunk for part in parts for chunk in part.columns.pop(role, [])]


def _latest(found: Interactions) -> Interactions:
    """Keep the latest rating of each pair of user and item, the last row of equal times."""
    codes = found.coded()
    pairs = codes.user_codes * np.int64(len(codes.item_ids)) + codes.item_codes
    in_order = np.sort(pairs)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    if not repeated.size:
        return found
    twice = repeated[np.append(True, repeated[1:] != repeated[:-1])]
    rows = np.flatnonzero(among(pairs, twice))
    times = np.zeros(rows.size) if found.times is None else found.times[rows]
    order = rows[np.lexsort((rows, times, pairs[rows]))]
    last = np.append(pairs[order][1:] != pairs[order][:-1], True)
    keep = np.ones(len(found), bool)
    keep[order[~last]] = False
    return found.filter(keep)

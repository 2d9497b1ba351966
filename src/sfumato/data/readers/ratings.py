"""Ratings from any file or frame: every bad row is told by its line, or left out and counted."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sfumato.core.validation import flag, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.data.readers import delimited, rating_columns, text_files
from sfumato.data.readers.base import ReadingReport, of_the_machine
from sfumato.data.readers.batches import are_paths, matches, read_batches
from sfumato.data.readers.rating_columns import ROLES, Asked, Gathered, joined_ids, positions_of
from sfumato.errors import ParameterError

__all__ = ["ReadingReport", "read_interactions"]

OWNER = "read_interactions"
SKIP = "correct it, or on_error='skip'"  # the remedy that the reader itself has
ENCODING = optional(one_of(("utf-8", "latin-1", "utf-16")))
ON_ERROR = one_of(("raise", "skip"))
DUPLICATES = one_of(("last", "keep"))
INVALID = one_of(("refuse", "drop"))


def read_interactions(
    source: Any,
    *,
    users: str | int | None = None,
    items: str | int | None = None,
    ratings: str | int | None = None,
    times: str | int | bool | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    on_error: str = "raise",
    duplicates: str = "last",
    guess: bool = True,
    invalid: str = "refuse",
) -> Interactions:
    """Who rated what, from files or frames, with a `report` of what was left out.

    Parameters
    ----------
    source : object
        A path, a glob or a list of them (.parquet, .json, .jsonl, .ndjson; any other name is
        delimited text; also gzip), an Arrow table, reader or dataset, a pandas or polars frame, a
        DuckDB relation, a dict of columns or an iterator of those.
    users : str, int or None, default=None
        A column's name or position from 0, by default the usual names (user_id, movieId, ISBN,
        rating, timestamp, ...) or, without a header, the first four; times=False reads none.
    items : str, int or None, default=None
        A column's name or position from 0, by default the usual names (user_id, movieId, ISBN,
        rating, timestamp, ...) or, without a header, the first four; times=False reads none.
    ratings : str, int or None, default=None
        A column's name or position from 0, by default the usual names (user_id, movieId, ISBN,
        rating, timestamp, ...) or, without a header, the first four; times=False reads none.
    times : str, int, bool or None, default=None
        A column's name or position from 0, by default the usual names (user_id, movieId, ISBN,
        rating, timestamp, ...) or, without a header, the first four; times=False reads none.
    delimiter : str or None, default=None
        Whether line 1 holds names,.
    header : bool or None, default=None
        Whether line 1 holds names,.
    encoding : str or None, default=None
        "utf-8", "latin-1" or "utf-16", by default as the file looks.
    on_error : str, default="raise"
        "raise", or "skip" to leave bad rows out and count them (malformed JSON always stops).
    duplicates : str, default="last"
        "last", or "keep" for a private model: of rows that put each other out, one more would
        change two.
    guess : bool, default=True
        False for what will be private: no row changes how others are read. The encoding is then
        utf-8 unless told, the first row alone shows delimiter and columns, times are read only
        where told, and a broken quote always stops.
    invalid : str, default="refuse"
        "refuse", or "drop" for what will be private, which is stricter than all of these: every
        line is read by itself (a quote ends with it), whatever it holds is a row or is left out and
        counted in the curator's `report`, nothing is guessed from rows or raised for one, all are
        kept and no times are read. The line of names is public; without one give header=False and
        the delimiter, or the first line, which shows them, is taken to be public too.

    Returns
    -------
    Interactions
        TODO.

    Notes
    -----
    **Guarantee.** Of several ratings of one item by one user the latest stays, by time, else by
    row, unless all are kept. A row without user or item, with a rating that is no finite number or
    with too many or too few fields stops with file, line and reason, never the value. Ids of
    delimited text are integers when all are written as such, without leading zeros; otherwise texts
    as they stand.

    Examples
    --------
    >>> seen = read_interactions({"user": [7, 7, 8], "item": [1, 1, 2], "rating": [5, 3, 4]})
    >>> print(seen.report)
    3 rows read, 2 kept; 1 older ratings of a pair dropped.
    """
    asked: Asked = {"users": users, "items": items, "ratings": ratings, "times": times}
    if INVALID.check(OWNER, "invalid", invalid) == "drop":
        delimiter, header = _delimiter(delimiter), optional(flag).check(OWNER, "header", header)
        encoding, skipped = ENCODING.check(OWNER, "encoding", encoding), Counter[str]()
        asked = rating_columns.times_told(asked, skip=True)
        pieces = _dropping(source, asked, (delimiter, header, encoding), skipped)
        return rating_columns.joined(pieces, skipped)
    written = _Written(
        _delimiter(delimiter),
        optional(flag).check(OWNER, "header", header),
        ENCODING.check(OWNER, "encoding", encoding),
        flag.check(OWNER, "guess", guess),
    )
    skip = ON_ERROR.check(OWNER, "on_error", on_error) == "skip"
    keep = DUPLICATES.check(OWNER, "duplicates", duplicates) == "keep"
    asked = asked if guess else rating_columns.times_told(asked, skip)
    parts, encodings = [], {}
    for part, name, told in _parts(source, asked, written, skip):
        parts.append(part)
        if told:
            encodings[name] = told
    return _together(parts, encodings, keep)


def _dropping(
    source: Any,
    asked: Asked,
    written: tuple[str | None, bool | None, str | None],
    skipped: Counter[str],
) -> Iterator[rating_columns.Columns]:
    """The columns of users, items and ratings, piece after piece, whatever they hold."""
    if isinstance(source, Iterator) and not isinstance(source, pa.RecordBatchReader):
        for each in source:
            yield from _dropping(each, asked, written, skipped)
        return
    if not isinstance(source, str | os.PathLike) and not are_paths(source):
        yield from _typed_columns("the frame", source, _names(source), asked)
        return
    for each in [source] if isinstance(source, str | os.PathLike) else source:
        for path in matches(each):
            if path.name.lower().endswith(".parquet"):
                yield from _typed_columns(str(path), path, _parquet_names(path), asked)
            elif _is_json(path):
                yield from rating_columns.json_rows(path, asked, skipped)
            else:
                yield from rating_columns.text_rows(path, asked, *written, skipped)


def _typed_columns(
    name: str, source: Any, names: list[str], asked: Asked
) -> Iterator[rating_columns.Columns]:
    users, items, ratings = positions_of(name, names, asked)
    if hasattr(source, "iloc"):
        yield source.iloc[:, users], source.iloc[:, items], source.iloc[:, ratings]
        return
    if isinstance(source, Mapping):
        held = list(source.values())
        yield held[users], held[items], held[ratings]
        return
    for batch in read_batches(source, [names[place] for place in (users, items, ratings)]):
        yield batch.column(0), batch.column(1), batch.column(2)


class _Written:
    """How delimited text is written, as far as it was told; and whether the rest is guessed."""

    def __init__(
        self, delimiter: str | None, header: bool | None, encoding: str | None, guess: bool
    ) -> None:
        self.delimiter, self.header, self.guess = delimiter, header, guess
        self.encoding = encoding if guess else encoding or "utf-8"


def _delimiter(value: str | None) -> str | None:
    if value is not None and not (isinstance(value, str) and 1 <= len(value) <= 4):
        raise ValueError(f"{OWNER}: delimiter must be 1 to 4 characters, not {value!r}.")
    return value


def _parts(
    source: Any, asked: Asked, written: _Written, skip: bool
) -> Iterator[tuple[Gathered, str, str]]:
    """Each file, or the frame, gathered; with its name and, for delimited text, its encoding."""
    if not isinstance(source, str | os.PathLike) and not are_paths(source):
        yield _frame(source, asked, skip), "the frame", ""
        return
    for each in [source] if isinstance(source, str | os.PathLike) else source:
        for path in matches(each):
            if path.name.lower().endswith(".parquet"):
                yield _table(path, _parquet_names(path), asked, skip), str(path), ""
            elif _is_json(path):
                if not written.guess:
                    rating_columns.need_roles(path, asked, skip)
                yield _json(path, asked, skip), str(path), ""
            else:
                part, encoding = _lines(path, asked, written, skip)
                yield part, str(path), encoding


def _lines(path: Path, asked: Asked, written: _Written, skip: bool) -> tuple[Gathered, str]:
    """A delimited file; read once more where what is broken suggests another way of writing."""
    named = any(isinstance(each, str) for each in asked.values())
    header = True if written.header is None and named else written.header
    rows = delimited.SNIFFED_ROWS if written.guess else 1
    dialect = delimited.sniffed(path, written.delimiter, header, written.encoding, rows)
    if not written.guess:
        rating_columns.need_names(path, dialect.header, skip)
    positions = positions_of(str(path), dialect.names, asked)
    best: tuple[Gathered, delimited.Rejects, delimited.Dialect] | None = None
    while True:
        rejects: delimited.Rejects = []
        part = Gathered(texts=True).take(delimited.texts(path, dialect, positions, rejects))
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
        # Of two in one line the reject is right: it moved the rows after it up by one.
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
    form = text_files.form_of(path)
    return form is not None and bool(form.layout)


def _json(path: Path, asked: Asked, skip: bool) -> Gathered:
    form = text_files.form_of(path)
    assert form is not None
    names = text_files.json_names(path, form)
    positions = positions_of(str(path), names, asked)
    chosen = [names[place] for place in positions]
    # As texts, so that a rating that is no number is one bad row and not another type of column.
    batches = read_batches(path, chosen, text=chosen[2:])
    part = Gathered(texts=False).take(batches)
    if not skip and part.fault and form.layout == "newline_delimited":
        dialect = delimited.Dialect("", False, (), gzip=form.gzip)
        _stop_at_line(path, dialect, part.fault, [])
    if not skip:
        _stop_at_row(str(path), part)
    return part


def _parquet_names(path: Path) -> list[str]:
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError) as error:
        if of_the_machine(error):
            raise
        told = f"{path}: cannot be read as Parquet; it is damaged or of another type."
        raise ValueError(told) from None


def _frame(source: Any, asked: Asked, skip: bool) -> Gathered:
    if isinstance(source, Iterator):
        first = next(source, None)
        if first is None:
            raise ValueError(f"{OWNER}: the stream is empty; a batch with columns is needed.")
        return _table(chain([first], source), _names(first), asked, skip)
    names = _names(source)
    if not hasattr(source, "iloc"):
        return _table(source, names, asked, skip)
    # Columns of pandas may be named by numbers; by place they can be read all the same.
    positions = positions_of("the frame", names, asked)
    roles = list(ROLES[: len(positions)])
    part = source.iloc[:, positions].set_axis(roles, axis=1)
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


def _table(source: Any, names: list[str], asked: Asked, skip: bool) -> Gathered:
    """A source whose columns have names and types."""
    name = str(source) if isinstance(source, Path) else "the frame"
    positions = positions_of(name, names, asked)
    batches = read_batches(source, [names[place] for place in positions])
    part = Gathered(texts=False).take(batches)
    if not skip:
        _stop_at_row(name, part)
    return part


def _together(parts: list[Gathered], encodings: dict[str, str], keep: bool) -> Interactions:
    timed = {bool(part.columns[3]) for part in parts if part.columns[0]}
    if len(timed) > 1:
        raise ValueError(f"{OWNER}: some files have times and some have none; give times=False.")
    found = Interactions(
        joined_ids(_drained(parts, 0)),
        joined_ids(_drained(parts, 1)),
        np.concatenate([np.empty(0), *_drained(parts, 2)]),
        np.concatenate(_drained(parts, 3)) if True in timed else None,
    )
    kept = found if keep else _latest(found)
    skipped = sum((part.skipped for part in parts), Counter[str]())
    rows = sum(part.rows for part in parts)
    report = ReadingReport(rows, len(kept), len(found) - len(kept), dict(skipped), encodings)
    kept.report = report
    return kept


def _drained(parts: list[Gathered], at: int) -> list[Any]:
    """The chunks of a column, given up by the parts so that they are not held beside the column."""
    chunks = [chunk for part in parts for chunk in part.columns[at]]
    for part in parts:
        part.columns[at].clear()
    return chunks


def _latest(found: Interactions) -> Interactions:
    """Of each pair of user and item the rating with the highest time, of equal ones the last."""
    codes = found.coded()
    pairs = codes.user_codes.astype(np.int64) * len(codes.item_ids) + codes.item_codes
    in_order = np.sort(pairs)
    twice = np.unique(in_order[1:][in_order[1:] == in_order[:-1]])
    if not twice.size:
        return found
    rows = np.flatnonzero(np.isin(pairs, twice))
    times = np.zeros(rows.size) if found.times is None else found.times[rows]
    order = rows[np.lexsort((rows, times, pairs[rows]))]
    last = np.append(pairs[order][1:] != pairs[order][:-1], True)
    keep = np.ones(len(found), bool)
    keep[order[~last]] = False
    return found.filter(keep)

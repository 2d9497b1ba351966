"""Reading for private use, where no row decides how others are read: what is told beforehand.

Rows that are dropped where they are bad are lines: a quote ends with its line at the latest, so
that no line hides another.
"""

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data import _text
from sfumato.data._delimited import BROKEN, FIELDS, QUOTE, Dialect, Rejects, sniffed
from sfumato.data._gather import joined_ids
from sfumato.data._report import ReadingReport
from sfumato.data._roles import ROLES, Asked, places_of
from sfumato.data.interactions import Interactions

__all__ = [
    "REMEDY",
    "hiding",
    "joined",
    "json_rows",
    "need_names",
    "need_roles",
    "text_rows",
    "times_told",
]

OWNER = "read_interactions"
OF_ONE_LINE = (FIELDS, BROKEN["INVALID ENCODING"])  # any other fault may have hidden lines after it
LONGEST = 1 << 20  # characters of a line; a longer one is no row
LINES = 1 << 16  # read at a time
TOO_LONG, NO_OBJECT = BROKEN["LINE SIZE OVER MAXIMUM"], "the line is no JSON object"
Columns = tuple[Any, Any, Any]
REMEDY = "correct it: lines after it may be hidden, so that it is not skipped"


def times_told(asked: Asked, skip: bool) -> Asked:
    """The columns asked for, with times only where they were told."""
    times = False if asked["times"] is None else asked["times"]
    if skip and times is not False:
        raise ValueError(
            f"{OWNER}: times do not go with on_error='skip' and guess=False, nor with "
            "invalid='drop': the first one decides how the others are written; give times=False."
        )
    return {**asked, "times": times}


def need_names(path: Path, header: bool, skip: bool) -> None:
    """Raise where the first row, and not a line of names, would decide which others are skipped."""
    if skip and not header:
        raise ValueError(
            f"{path}: has no line of names, so that its first row would decide which others are "
            "bad; add one, or correct what is bad."
        )


def need_roles(path: Path, asked: Asked, skip: bool) -> None:
    """Raise where a key of one JSON object could decide which column of the others is read."""
    missing = [role for role in ROLES[:3] if asked[role] is None]
    if skip and missing:
        raise ValueError(
            f"{path}: give {', '.join(f'{role}=' for role in missing)}: any row of JSON may have "
            "other columns, so that none is guessed where bad rows are skipped."
        )


def hiding(rejects: Rejects) -> Rejects:
    """The rejects that always stop: a broken quote may have hidden the lines after it."""
    return [(line, reason) for line, reason in rejects if reason not in OF_ONE_LINE]


def joined(parts: Iterable[Columns], skipped: Counter[str]) -> Interactions:
    """All rows that can be read, of columns of users, items and ratings; the others are counted."""
    found = [Interactions(*each, invalid="drop") for each in parts]
    rows = skipped.total() + sum(len(each) for each in found)
    for each in found:
        assert each.report is not None
        skipped.update(each.report.skipped)
        rows += sum(each.report.skipped.values())
    users = joined_ids([_plain(each._users) for each in found])
    items = joined_ids([_plain(each._items) for each in found])
    rated = np.concatenate([np.empty(0), *(each.ratings for each in found)])
    made = Interactions(users, items, rated, invalid="drop")
    made.report = ReadingReport(rows, len(made), 0, dict(+skipped))
    return made


def _plain(ids: Any) -> Any:
    return ids if isinstance(ids, np.ndarray) else pa.chunked_array([ids.dictionary_decode()])


def text_rows(
    path: Path,
    asked: Asked,
    delimiter: str | None,
    header: bool | None,
    encoding: str | None,
    skipped: Counter[str],
) -> Iterator[Columns]:
    """The columns of delimited text, each line by itself; lines that are no row are counted.

    A line of names is public, and rows have as many fields as it. Without one rows have at least
    those that are read; where the delimiter or the header is not told, the first line shows them.
    """
    form = _text.form_of(path)
    if header is False and delimiter is None and form is not None:
        delimiter = form.delimiter
    if header is None and any(isinstance(each, str) for each in asked.values()):
        header = True
    if header is False and delimiter:
        told = [place for place in asked.values() if type(place) is int]
        zipped = bool(form and form.gzip) or path.name.lower().endswith(".gz")
        names = ("",) * (max([2, *told]) + 1)
        dialect = Dialect(delimiter, False, names, encoding or "utf-8", gzip=zipped)
    else:
        dialect = sniffed(path, delimiter, header, encoding or "utf-8", rows=1)
    places = places_of(str(path), dialect.names, asked)
    most = dialect.width if dialect.header else LONGEST
    fields = range(dialect.width if dialect.header else max(places) + 1, most + 1)
    for lines in _lines(path, dialect, skipped):
        yield _split(lines, dialect.delimiter, places, fields, skipped)


def json_rows(path: Path, asked: Asked, skipped: Counter[str]) -> Iterator[Columns]:
    """The columns of lines of JSON objects, each by itself; lines that are none are counted."""
    form = _text.form_of(path)
    if form is None or form.layout != "newline_delimited":
        raise ValueError(f"{path}: invalid='drop' reads JSON by lines; write .jsonl or .ndjson.")
    need_roles(path, asked, skip=True)
    names = [str(asked[role]) for role in ROLES[:3]]
    for lines in _lines(path, Dialect("", False, (), gzip=form.gzip), skipped):
        objects = [found for line in lines if (found := _object(line)) is not None]
        skipped.update({NO_OBJECT: len(lines) - len(objects)})
        users, items, ratings = ([each.get(name) for each in objects] for name in names)
        yield users, items, ratings


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _lines(path: Path, dialect: Dialect, skipped: Counter[str]) -> Iterator[list[str]]:
    """The lines after the names, some at a time, without blank ones; bad ones are counted."""
    opened: Any = gzip.open if dialect.gzip else open
    plain = dialect.encoding.replace("utf-8", "utf-8-sig")
    # What is not UTF-8 stays in its line, as halves of pairs.
    errors = "surrogateescape" if dialect.encoding == "utf-8" else "replace"
    try:
        with opened(path, "rt", encoding=plain, errors=errors, newline="\n") as file:
            lines = _bounded(file, skipped)
            if dialect.header:
                next(lines, None)
            while some := list(islice(lines, LINES)):
                yield some
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None


def _bounded(file: IO[str], skipped: Counter[str]) -> Iterator[str]:
    while line := file.readline(LONGEST):
        long = len(line) == LONGEST and not line.endswith("\n")
        while long and (rest := file.readline(LONGEST)) and not rest.endswith("\n"):
            pass
        if long or not _is_text(line):
            skipped[TOO_LONG if long else BROKEN["INVALID ENCODING"]] += 1
        elif line := line.rstrip("\r\n"):
            yield line


def _split(
    lines: list[str], delimiter: str, places: list[int], fields: range, skipped: Counter[str]
) -> Columns:
    """The fields at these places of all lines that have a right number of them, in their order."""
    quoted = [at for at, line in enumerate(lines) if QUOTE in line]
    left = np.ones(len(lines), bool)
    left[quoted] = False
    rows = np.flatnonzero(left)
    split = pc.split_pattern(pa.array([lines[at] for at in rows], pa.large_string()), delimiter)
    sizes = np.asarray(pc.list_value_length(split))
    good = (sizes >= fields.start) & (sizes < fields.stop)
    split = split.filter(pa.array(good))
    columns = [pc.list_element(split, place) for place in places]
    if not quoted:
        skipped.update({FIELDS: int((~good).sum())})
        return columns[0], columns[1], columns[2]
    found, at = [column.to_pylist() for column in columns], list(rows[good])
    for row in quoted:
        parts = _parts(lines[row], delimiter)
        if parts is not None and len(parts) in fields:
            at.append(row)
            for column, place in zip(found, places, strict=True):
                column.append(parts[place])
    skipped.update({FIELDS: len(lines) - len(at)})
    order = np.argsort(np.asarray(at, np.int64))
    users, items, ratings = ([column[each] for each in order] for column in found)
    return users, items, ratings


def _is_text(line: str) -> bool:
    try:
        return line.isascii() or line.encode() is not None
    except UnicodeEncodeError:
        return False


def _parts(line: str, delimiter: str) -> list[str] | None:
    """The fields of a line with quotes; None where a quote is not closed, or was not opened."""
    if line.count(QUOTE) % 2:
        return None
    if len(delimiter) == 1:
        try:
            return next(csv.reader([line], delimiter=delimiter, strict=True))
        except csv.Error:
            return None
    parts = line.split(delimiter)
    whole = not any(part.count(QUOTE) % 2 for part in parts)
    return [part.strip(QUOTE) for part in parts] if whole else None

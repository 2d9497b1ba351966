"""Columns of users, items, ratings and times: found by name or position, and gathered in batches.

Also the line-by-line reading for private use, where no row decides how others are read.
"""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import as_ids, numbers
from sfumato.core.row_values import strict
from sfumato.data.interactions import Interactions
from sfumato.data.readers import formats
from sfumato.data.readers.base import ReadingReport, listed, missing_column
from sfumato.data.readers.delimited import BROKEN, FIELDS, Dialect, Rejects, sniffed
from sfumato.data.readers.formats import QUOTE
from sfumato.errors import ParameterError

__all__ = [
    "REMEDY",
    "ROLES",
    "Gathered",
    "RequestedColumns",
    "check_header",
    "check_ratings",
    "dialect_of",
    "explicit_times",
    "hiding",
    "joined",
    "joined_ids",
    "json_rows",
    "need_names",
    "need_roles",
    "positions_of",
    "text_rows",
    "with_names",
]

ROLES = ("users", "items", "ratings", "times")
RequestedColumns = dict[str, str | int | bool | None]  # by role; None: guess; False: there is none
USUAL = {
    "users": "user users userid uid customer customerid reviewer reviewerid account accountid "
    "visitor visitorid member memberid listener listenerid session sessionid",
    "items": "item items itemid iid movie movieid film filmid isbn book bookid product productid "
    "asin artist artistid song songid track trackid album albumid article articleid video videoid "
    "game gameid page pageid url",
    # Stars first, then counts: implicit feedback of a certain strength.
    "ratings": "rating ratings score scores stars bookrating overall value preference "
    "plays playcount listens listencount clicks clickcount views viewcount purchases quantity "
    "count counts frequency weight weights",
    "times": "timestamp time times date datetime ts unixreviewtime ratedat createdat",
}
OPTIONAL = ("ratings", "times")


def positions_of(name: str, names: Sequence[str], requested: RequestedColumns) -> dict[str, int]:
    """Positions of users, items and, if there are any, ratings and times, in the source `name`.

    names: of the columns; "" for columns without names, of which the first four count.
    """
    positions = {role: _position(name, names, role, requested[role]) for role in ROLES}
    found = {role: position for role, position in positions.items() if position is not None}
    if len(set(found.values())) < len(found):
        raise ValueError(f"{name}: two roles have one column: {positions}; give each its own.")
    return found


def check_header(
    path: Path, header: bool | None, names: Sequence[str], positions: dict[str, int]
) -> None:
    """Raise where line 1 has no number and no usual name, so that it may be names or ids.

    Ratings are numbers, and tell names from values; without them a row of texts could be lost.
    """
    if header is not None or "ratings" in positions or not any(names):
        return
    if not any(_usual(names, role) is not None for role in ROLES):
        raise ParameterError(
            f"{path}: line 1 may hold names or values; give header=True or header=False.",
            owner=OWNER,
            parameter="header",
        )


def _position(
    name: str, names: Sequence[str], role: str, requested: str | int | bool | None
) -> int | None:
    if requested is False and role in OPTIONAL:
        return None
    if isinstance(requested, bool) or not isinstance(requested, str | int | None):
        none = " (False: there is none)" if role in OPTIONAL else ""
        raise TypeError(f"read_interactions: {role} must be a column's name or position{none}.")
    if isinstance(requested, str):
        return _named(name, names, role, requested)
    if requested is not None:
        return _at(name, names, role, requested)
    return _guessed(name, names, role)


def _named(name: str, names: Sequence[str], role: str, requested: str) -> int:
    if not any(names):
        raise ValueError(f"{name}: has no header line; give {role} as a position, from 0.")
    if requested not in names:
        raise missing_column(name, requested, names)
    if list(names).count(requested) > 1:
        raise ValueError(f"{name}: two columns are named {requested!r}; give {role} as a position.")
    return list(names).index(requested)


def _at(name: str, names: Sequence[str], role: str, requested: int) -> int:
    if not 0 <= requested < len(names):
        last = len(names) - 1
        raise ParameterError(
            f"{name}: {role} must be a position from 0 to {last}, not {requested}.",
            owner=OWNER,
            parameter=role,
        )
    return requested


def _guessed(name: str, names: Sequence[str], role: str) -> int | None:
    if not any(names):
        position = ROLES.index(role)
        if position < len(names):
            return position
    found = _usual(names, role)
    if found is not None or role in OPTIONAL:
        return found
    there = listed(names) if any(names) else f"there are {len(names)} columns without names"
    sentence = f"{name}: cannot find the column of {role}; give {role}=; {there}."
    raise ParameterError(sentence, owner=OWNER, parameter=role)


def _usual(names: Sequence[str], role: str) -> int | None:
    """Position of the first usual name of a role."""
    plain = [re.sub(r"[^a-z0-9]", "", each.lower()) for each in names]
    return next((plain.index(each) for each in USUAL[role].split() if each in plain), None)


NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
DATE = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9:]+)?)?$"
)
BAD_RATING = "the rating is not a finite number"
BAD_TIME = "the time is neither a number nor a date (times=False reads none)"


class Gathered:
    """Columns of one source, gathered batch by batch: users, items, and ratings and times if any.

    roles: those of the columns, in the order of `ROLES`. texts: whether all fields come as text, so
    that ids that are all written as integers become integers (007 is not). `fault` is the first
    invalid row, from 0, and its reason.
    """

    def __init__(self, roles: Iterable[str], *, texts: bool) -> None:
        self.texts = texts
        self.columns: dict[str, list[Any]] = {role: [] for role in roles}
        self.rows = 0
        self.skipped: Counter[str] = Counter()
        self.fault: tuple[int, str] | None = None

    def take(self, batches: Iterable[pa.RecordBatch]) -> "Gathered":
        """Add all batches, with the columns of the roles in their order."""
        for batch in batches:
            decoded = [_decoded(column) for column in batch.columns]
            self._add(dict(zip(self.columns, decoded, strict=True)))
        return self

    def accept(self, chunks: list[list[Any]]) -> "Gathered":
        """Add columns of valid numbers, each as its chunks, in the order of the roles."""
        self.columns = dict(zip(self.columns, chunks, strict=True))
        self.rows += sum(map(len, self.columns["users"]))
        return self

    def _add(self, columns: dict[str, Any]) -> None:
        rows = len(columns["users"])
        faults = [
            (_empty(columns["users"]), "the user is empty"),
            (_empty(columns["items"]), "the item is empty"),
        ]
        for role, reason in (("ratings", BAD_RATING), ("times", BAD_TIME)):
            if role in columns:
                columns[role], valid = _measured(columns[role], role)
                faults.append((~valid, reason))
        if any(bad.any() for bad, _ in faults):
            keep = pa.array(self._count(faults))
            columns = {role: pa.array(part).filter(keep) for role, part in columns.items()}
        self._keep(columns)
        self.rows += rows

    def _count(self, faults: list[tuple[np.ndarray, str]]) -> np.ndarray:
        """Count every invalid row once, by its first reason; return the mask of valid rows."""
        good = np.ones(faults[0][0].size, bool)
        for bad, reason in faults:
            new = bad & good
            self.skipped[reason] += int(new.sum())
            if new.any():
                row = self.rows + int(np.flatnonzero(new)[0])
                self.fault = min(self.fault or (row, reason), (row, reason))
            good &= ~bad
        self.skipped = +self.skipped
        return good

    def _keep(self, columns: dict[str, Any]) -> None:
        for role, column in columns.items():
            chunks = self.columns[role]
            plain = role in OPTIONAL
            chunks.append(np.asarray(column) if plain else self._ids(chunks, column, role))

    def _ids(self, before: list[Any], ids: pa.Array, name: str) -> Any:
        still_integers = not before or isinstance(before[-1], np.ndarray)
        integers = strict(ids, pa.int64()) if self.texts and still_integers else None
        return as_ids(ids if integers is None else integers, name)


def joined_ids(chunks: list[Any]) -> Any:
    """Concatenate chunks: integers if all are, else text."""
    filled = [chunk for chunk in chunks if len(chunk)]
    if all(isinstance(chunk, np.ndarray) for chunk in filled):
        return np.concatenate([np.empty(0, np.int64), *filled])
    arrays = [pa.chunked_array([pa.array(c)]) if isinstance(c, np.ndarray) else c for c in filled]
    return pa.chunked_array([part for a in arrays for part in a.cast(pa.string()).chunks])


def _decoded(column: pa.Array) -> pa.Array:
    """Categories as their values, and any text type as plain text."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    return column.cast(pa.string()) if _is_text_type(column.type) else column


def _is_text_type(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _empty(ids: pa.Array) -> np.ndarray:
    missing = ids.is_null()
    if _is_text_type(ids.type):
        missing = pc.or_(missing, pc.equal(pc.ascii_trim_whitespace(ids.fill_null("")), ""))
    return np.asarray(missing)


def _measured(column: pa.Array, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and the mask of valid rows; invalid ones are 0."""
    if _is_text_type(column.type):
        column = pc.ascii_trim_whitespace(column)
        column = _dates(column) if name == "times" and _dated(column) else _parsed(column)
    there = column.drop_null()
    if not len(there):
        return np.zeros(len(column), np.int64), np.zeros(len(column), bool)
    valid = np.asarray(column.is_valid())
    if column.null_count:
        column = column.fill_null(there[0])
    if pa.types.is_floating(column.type):
        plain = np.asarray(column)
        valid &= np.isfinite(plain)
        column = np.where(valid, plain, 0.0)
    return numbers(column, name), valid


def _parsed(texts: pa.Array) -> pa.Array:
    """Texts as numbers, integers if all are; null where a text is none."""
    for kind in (pa.int64(), pa.float64()):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    looks = pc.match_substring_regex(texts, NUMBER)
    return pc.if_else(looks, texts, pa.scalar(None, pa.string())).cast(pa.float64())


def _dated(texts: pa.Array) -> bool:
    """Whether the first text that is not null is a date."""
    first = texts.drop_null().slice(0, 1)
    return len(first) == 1 and _dates(first).null_count == 0


def _dates(texts: pa.Array) -> pa.Array:
    """Texts as timestamps, UTC if without a zone; null where a text is none."""
    looks = pc.match_substring_regex(texts, DATE)
    texts = pc.if_else(looks, texts, pa.scalar(None, pa.string()))
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    # One of them is no day of the calendar: now one by one, to the second.
    plain = pc.replace_substring_regex(pc.utf8_slice_codeunits(texts, 0, 19), "T", " ")
    day = pc.strptime(plain, format="%Y-%m-%d", unit="us", error_is_null=True)
    second = pc.strptime(plain, format="%Y-%m-%d %H:%M:%S", unit="us", error_is_null=True)
    return pc.coalesce(second, day)


OWNER = "read_interactions"
OF_ONE_LINE = (FIELDS, BROKEN["INVALID ENCODING"])  # others may have swallowed the lines after
LONGEST = 1 << 20  # characters of a line; a longer one is no row
LINES = 1 << 16  # read at a time
TOO_LONG, NO_OBJECT = BROKEN["LINE SIZE OVER MAXIMUM"], "the line is no JSON object"
Columns = dict[str, Any]  # of users, items and, if there are any, ratings
READ_BY_ROW = ROLES[:3]
REMEDY = "correct it: lines after it may be hidden, so that it is not skipped"


def explicit_times(requested: RequestedColumns, skip: bool) -> RequestedColumns:
    """The requested columns, without times unless they were given."""
    times = False if requested["times"] is None else requested["times"]
    if skip and times is not False:
        raise ParameterError(
            f"{OWNER}: times do not go with on_error='skip' and guess=False, nor with "
            "invalid='drop': the first one decides how the others are written; give times=False.",
            owner=OWNER,
            parameter="on_error",
        )
    return {**requested, "times": times}


def need_names(path: Path, header: bool, skip: bool) -> None:
    """Raise where the first row, and not a header, would decide which others are skipped."""
    if skip and not header:
        raise ValueError(
            f"{path}: has no line of names, so that its first row would decide which others are "
            "bad; add one, or correct what is bad."
        )


def need_roles(path: Path, requested: RequestedColumns, skip: bool) -> None:
    """Raise where a key of one JSON object could decide which column of the others is read."""
    missing = [role for role in READ_BY_ROW if requested[role] is None]
    if skip and missing:
        raise ParameterError(
            f"{path}: give {', '.join(f'{role}=' for role in missing)}: any row of JSON may have "
            "other columns, so that none is guessed where bad rows are skipped.",
            owner=OWNER,
            parameter=missing[0],
        )


def hiding(rejects: Rejects) -> Rejects:
    """Rejects that always raise: a broken quote may have swallowed the lines after it."""
    return [(line, reason) for line, reason in rejects if reason not in OF_ONE_LINE]


def joined(parts: Iterable[Columns], skipped: Counter[str]) -> Interactions:
    """Concatenate all valid rows of columns of users, items and ratings; count the others."""
    found = [Interactions(**each, invalid="drop") for each in parts]
    rated = check_ratings({each.has_ratings for each in found})
    rows = skipped.total() + sum(len(each) for each in found)
    for each in found:
        assert each.report is not None
        skipped.update(each.report.skipped)
        rows += sum(each.report.skipped.values())
    users = joined_ids([_plain(each._users) for each in found])
    items = joined_ids([_plain(each._items) for each in found])
    ratings = np.concatenate([np.empty(0), *(each.ratings for each in found)]) if rated else None
    made = Interactions(users, items, ratings, invalid="drop")
    made.report = ReadingReport(rows, len(made), 0, dict(+skipped))
    return made


def check_ratings(rated: set[bool]) -> bool:
    """Whether sources have ratings; raise ValueError where only some of them do."""
    if len(rated) > 1:
        raise ValueError(
            f"{OWNER}: some sources have ratings and some have none; give ratings=False."
        )
    return rated != {False}


def _plain(ids: Any) -> Any:
    return ids if isinstance(ids, np.ndarray) else pa.chunked_array([ids.dictionary_decode()])


def with_names(header: bool | None, requested: RequestedColumns) -> bool | None:
    """Whether line 1 has names: it must, where a column is requested by one."""
    named = any(isinstance(each, str) for each in requested.values())
    return True if header is None and named else header


def dialect_of(
    path: Path, requested: RequestedColumns, given: formats.TextFormat, *, private: bool
) -> Dialect:
    """Dialect of delimited text; where it is private, of its first line alone, or of none."""
    header, delimiter = with_names(given.header, requested), given.delimiter
    if not private:
        return sniffed(path, delimiter, header, given.encoding)
    form = formats.form_of(path)
    if header is False and delimiter is None and form is not None:
        delimiter = form.delimiter
    if header is not False or not delimiter:
        return sniffed(path, delimiter, header, given.encoding or "utf-8", rows=1)
    numbered = [position for position in requested.values() if type(position) is int]
    zipped = bool(form and form.gzip) or path.name.lower().endswith(".gz")
    least = 1 if requested["ratings"] is False else 2
    names = ("",) * (max([least, *numbered]) + 1)
    return Dialect(delimiter, False, names, given.encoding or "utf-8", gzip=zipped)


def text_rows(
    path: Path, requested: RequestedColumns, given: formats.TextFormat, skipped: Counter[str]
) -> Iterator[Columns]:
    """Yield the columns of delimited text, each line by itself; count lines that are no row.

    A line of names is public, and rows have as many fields as it. Without one, rows have at least
    the fields that are read; the first line shows the delimiter or header if it is not given.
    """
    dialect = dialect_of(path, requested, given, private=True)
    header = with_names(given.header, requested)
    positions = positions_of(str(path), dialect.names, requested)
    check_header(path, header, dialect.names, positions)
    most = dialect.width if dialect.header else LONGEST
    fields = range(dialect.width if dialect.header else max(positions.values()) + 1, most + 1)
    yield {role: [] for role in positions}  # so that a file without rows has its columns too
    for lines in _lines(path, dialect, skipped):
        columns = _split(lines, dialect.delimiter, list(positions.values()), fields, skipped)
        yield dict(zip(positions, columns, strict=True))


def json_rows(path: Path, requested: RequestedColumns, skipped: Counter[str]) -> Iterator[Columns]:
    """Yield the columns of lines of JSON objects, each by itself; count other lines."""
    form = formats.form_of(path)
    if form is None or form.layout != "newline_delimited":
        raise ValueError(f"{path}: invalid='drop' reads JSON by lines; write .jsonl or .ndjson.")
    need_roles(path, requested, skip=True)
    names = {role: str(requested[role]) for role in READ_BY_ROW if requested[role] is not False}
    yield {role: [] for role in names}
    for lines in _lines(path, Dialect("", False, (), gzip=form.gzip), skipped):
        objects = [found for line in lines if (found := _object(line)) is not None]
        skipped.update({NO_OBJECT: len(lines) - len(objects)})
        yield {role: [each.get(name) for each in objects] for role, name in names.items()}


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _lines(path: Path, dialect: Dialect, skipped: Counter[str]) -> Iterator[list[str]]:
    """Yield the lines after the header, some at a time, without blank ones; count invalid ones."""
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
        while long and (remainder := file.readline(LONGEST)) and not remainder.endswith("\n"):
            pass
        if long or not _is_text(line):
            skipped[TOO_LONG if long else BROKEN["INVALID ENCODING"]] += 1
        elif line := line.rstrip("\r\n"):
            yield line


def _split(
    lines: list[str], delimiter: str, positions: list[int], fields: range, skipped: Counter[str]
) -> list[Any]:
    """Fields at these positions of all lines with a valid number of fields, in order."""
    quoted = [at for at, line in enumerate(lines) if QUOTE in line]
    unquoted = np.ones(len(lines), bool)
    unquoted[quoted] = False
    rows = np.flatnonzero(unquoted)
    split = pc.split_pattern(pa.array([lines[at] for at in rows], pa.large_string()), delimiter)
    sizes = np.asarray(pc.list_value_length(split))
    good = (sizes >= fields.start) & (sizes < fields.stop)
    split = split.filter(pa.array(good))
    columns = [pc.list_element(split, position) for position in positions]
    if not quoted:
        skipped.update({FIELDS: int((~good).sum())})
        return columns
    found, at = [column.to_pylist() for column in columns], list(rows[good])
    for row in quoted:
        parts = _parts(lines[row], delimiter)
        if parts is not None and len(parts) in fields:
            at.append(row)
            for column, position in zip(found, positions, strict=True):
                column.append(parts[position])
    skipped.update({FIELDS: len(lines) - len(at)})
    order = np.argsort(np.asarray(at, np.int64))
    return [[column[each] for each in order] for column in found]


def _is_text(line: str) -> bool:
    try:
        return line.isascii() or line.encode() is not None
    except UnicodeEncodeError:
        return False


def _parts(line: str, delimiter: str) -> list[str] | None:
    """Fields of a line with quotes; None where quotes do not match."""
    if line.count(QUOTE) % 2:
        return None
    if len(delimiter) == 1:
        try:
            return next(csv.reader([line], delimiter=delimiter, strict=True))
        except csv.Error:
            return None
    parts = line.split(delimiter)
    closed = not any(part.count(QUOTE) % 2 for part in parts)
    return [part.strip(QUOTE) for part in parts] if closed else None

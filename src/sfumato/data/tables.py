"""Tables of points, vectors and ids from files; errors name file, row and column, never a value.

A private table is read row by row: no row is refused, and none changes how another is read.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.canonical_keys import canonical_key
from sfumato.core.row_values import cells_of, numbers_of
from sfumato.data.files import beginning, write_table
from sfumato.data.readers import arrays, arrow, formats
from sfumato.data.readers.formats import GIVEN, QUOTE, Form, TextFormat

__all__ = [
    "PointFile",
    "is_matrix",
    "matrix_of",
    "names_of",
    "point_names",
    "read",
    "read_one_by_one",
    "write",
]

BATCH = 1 << 16  # rows at a time
WHICH = "--columns a,b,... names those of the points."
LINE = 1 << 20  # bytes of the longest line that is a row


@dataclass(frozen=True)
class PointFile:
    """A file of points, optionally with another column (labels or targets).

    names: columns of the points, of a matrix of NumPy or SciPy their numbers, or None for all of a
    matrix; beside: the other column; text: whether it contains classes; skip_nulls: leave out rows
    with an empty or NaN cell, which raise otherwise; private: refuse no row. An invalid number is
    then NaN, and so is all of a line that has not as many fields as the header, is no JSON object,
    or is longer than a mebibyte; a row is one line. given: how text is written, as far as it is
    known; remedy, which: what mends an empty cell, and a column without numbers;
    categorical: columns of the points that contain categories, which come as canonical texts.
    """

    file: Path
    names: list[str] | None
    beside: str | None = None
    text: bool = False
    skip_nulls: bool = False
    remedy: str = "drop or fill such rows."
    private: bool = False
    given: TextFormat = GIVEN
    which: str = WHICH
    categorical: tuple[str, ...] = ()

    def parts(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield points and the other column, some rows at a time.

        No part is empty, except where the table is private and has no rows.
        """
        if self.private:
            yield from self._private_parts()
            return
        row, none = 0, True
        for columns in self._matrix() if is_matrix(self.file) else self._columns():
            complete = self._complete(columns, row)
            row += len(next(iter(columns.values())))
            if complete is None:
                continue
            none = False
            other = complete.pop(self.beside) if self.beside is not None else None
            yield (_stacked(complete) if self.names is None else pa.table(complete)), _plain(other)
        if none:
            raise ValueError(f"{self.file}: has no rows to use.")

    def all(
        self, progress: Callable[[int, int | None], None] | None = None
    ) -> tuple[Any, np.ndarray | None]:
        """Read all rows at once; call progress(rows read, None) as they are read."""
        parts, rows = [], 0
        for part in self.parts():
            parts.append(part)
            rows += len(part[0])
            if progress is not None:
                progress(rows, None)
        points = [each for each, _ in parts]
        beside = [other for _, other in parts if other is not None]
        joined = np.concatenate(points) if self.names is None else pa.concat_tables(points)
        return joined, np.concatenate(beside) if beside else None

    def _private_parts(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield rows as numbers, NaN where invalid, with the other column as written."""
        names = self.names
        if is_matrix(self.file) or names is None:
            yield from self._private_matrix()
            return
        wanted = [*names] if self.beside is None else [*names, self.beside]
        for columns in read_one_by_one(self.file, wanted, self.given):
            other = None
            if self.beside is not None:
                other = np.empty(len(columns[-1]), object)
                other[:] = columns[-1] if self.text else numbers_of(columns[-1])
            points = {
                name: _categories(cells) if name in self.categorical else numbers_of(cells)
                for name, cells in zip(names, columns, strict=False)
            }
            yield pa.table(points), other

    def _private_matrix(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        matrix = matrix_of(self.file)
        at = self._positions(matrix.shape[1])
        for row in range(0, max(len(matrix), 1), BATCH):
            with np.errstate(all="ignore"):  # a warning would tell of one row
                part = np.asarray(matrix[row : row + BATCH], np.float64)
            other = None if self.beside is None else self._other(part[:, at[self.beside]])
            if self.names is None:
                yield part, other
            else:
                yield pa.table({name: part[:, at[name]] for name in self.names}), other

    def _matrix(self) -> Iterator[dict[str, Any]]:
        rows = matrix_of(self.file)
        at = self._positions(rows.shape[1])
        names = self.names or [f"x{j}" for j in range(rows.shape[1])]
        for row in range(0, len(rows), BATCH):
            part = np.asarray(rows[row : row + BATCH], np.float64)
            columns = {name: pa.array(part[:, at.get(name, j)]) for j, name in enumerate(names)}
            if self.beside is not None:
                columns[self.beside] = pa.array(self._other(part[:, at[self.beside]]))
            yield columns

    def _positions(self, width: int) -> dict[str, int]:
        """Columns of a matrix by their numbers, as far as they are named."""
        numbered = [*map(str, range(width))]
        named = [*(self.names or []), *([] if self.beside is None else [self.beside])]
        return {name: formats.position_of(self.file, numbered, name) for name in named}

    def _other(self, values: np.ndarray) -> np.ndarray:
        """The other column of a matrix: numbers, or classes as they are written."""
        if not self.text:
            return values
        found = np.empty(len(values), object)
        found[:] = [_as_class(value) for value in values.tolist()]
        return found

    def _columns(self) -> Iterator[dict[str, Any]]:
        from sfumato.data import read_batches

        points = self.names or []
        wanted = [*points] if self.beside is None else [*points, self.beside]
        # Numbers of a text file are read as text, since only the first may look like integers.
        labels = [self.beside] if self.beside is not None and self.text else []
        row, as_text = 0, labels if formats.is_typed(self.file) else wanted
        options = {"batch_rows": BATCH, "text": as_text, **vars(self.given)}
        for batch in read_batches(self.file, wanted, **options):
            yield {
                name: batch.column(name)
                if name in labels
                else self._cells(batch.column(name), name, row)
                for name in wanted
            }
            row += batch.num_rows

    def _cells(self, column: Any, name: str, row: int) -> Any:
        if name in self.categorical:
            return _categories(cells_of(column))
        return self._numbers(column, name, row)

    def _numbers(self, column: Any, name: str, row: int) -> Any:
        if pa.types.is_string(column.type) and not formats.is_typed(self.file):
            column = pc.utf8_trim_whitespace(column)
            found = _cast(column)
            if found is None:
                at = row + _first_misfit(column)
                raise ValueError(
                    f"{self.file}: row {at}: column {name!r} must hold numbers; {self.which}"
                )
            return found
        found = None if pa.types.is_string(column.type) else _cast(column)
        if found is None:
            raise ValueError(
                f"{self.file}: column {name!r} must hold numbers, not {column.type}; {self.which}"
            )
        return found

    def _complete(self, columns: dict[str, Any], row: int) -> dict[str, Any] | None:
        """Rows without empty cells; None where there is none."""
        missing = np.zeros(len(next(iter(columns.values()))), bool)
        for name, column in columns.items():
            empty = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
            if empty.any() and not self.skip_nulls:
                at = row + 1 + int(empty.argmax())
                raise ValueError(
                    f"{self.file}: row {at}: column {name!r} is empty or NaN; {self.remedy}"
                )
            missing |= empty
        if missing.all():
            return None
        retained = pa.array(~missing)
        return {name: column.filter(retained) for name, column in columns.items()}


def _as_class(value: float) -> str | None:
    """The text of a class that a matrix holds: that of an integer where it is one."""
    if not np.isfinite(value):
        return None
    return str(int(value)) if value == int(value) else str(value)


def _categories(cells: list[Any]) -> Any:
    """Canonical texts of cells, each by itself; null for a missing one."""
    keys = map(canonical_key, cells)
    texts = [None if key is None else key.decode("utf-8", "replace") for key in keys]
    return pa.array(texts, pa.large_string())


def read_one_by_one(
    file: Path, wanted: list[str], given: TextFormat = GIVEN
) -> Iterator[list[list[Any]]]:
    """Yield columns of cells, some rows at a time and first an empty part; no row is refused."""
    from sfumato.data.readers.batches import matches

    yield [[] for _ in wanted]
    for path in matches(file):
        if formats.is_typed(path):
            yield from _typed_cells(path, wanted)
            continue
        form = formats.resolved(path, given, wanted, private=True)
        if form.layout == "auto":  # one damaged element would take all others with it
            raise ValueError(
                f"{path}: a JSON list cannot be read row by row, as private tables are; write "
                "one object per line, in a .jsonl."
            )
        if form.layout:
            rows = _json_rows(path, form, wanted)
        else:
            positions = [formats.position_of(path, form.names, name) for name in wanted]
            rows = _line_rows(path, form, positions)
        while part := list(islice(rows, BATCH)):
            yield [list(cells) for cells in zip(*part, strict=True)]


def _typed_cells(path: Path, wanted: list[str]) -> Iterator[list[list[Any]]]:
    from sfumato.data import read_batches

    for batch in read_batches(path, wanted, batch_rows=BATCH):
        yield [cells_of(batch.column(name)) for name in wanted]


def _lines(path: Path, form: Form) -> Iterator[bytes]:
    """Yield every line as UTF-8; one that is too long for a row as an empty one."""
    opened: Any = gzip.open if form.gzip else open
    how: tuple[Any, ...] = ("rb", None, None, None)
    if form.encoding != "utf-8":
        how = ("rt", form.encoding, "replace", "\n")
    try:
        with opened(path, how[0], encoding=how[1], errors=how[2], newline=how[3]) as file:
            while line := _line(file):
                ended = line.endswith(b"\n") or len(line) < LINE
                while not ended:
                    more = _line(file)
                    ended, line = more.endswith(b"\n") or len(more) < LINE, b""
                yield line.rstrip(b"\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path}: the gzip file is damaged or cut off.") from None


def _line(file: Any) -> bytes:
    line = file.readline(LINE)
    return line.encode() if isinstance(line, str) else bytes(line)


def _line_rows(path: Path, form: Form, positions: list[int]) -> Iterator[list[Any]]:
    """Yield the wanted fields of lines: of as many as the header's, or of enough without one."""
    between, width = form.delimiter.encode(), len(form.names)
    fits = range(width, width + 1) if form.header else range(max(positions) + 1, LINE)
    for line in islice(_lines(path, form), form.skip + form.header, None):
        fields: list[Any] | None = line.split(between)
        if QUOTE.encode() in line:
            fields = _quoted(line.decode("utf-8", "replace"), form.delimiter)
        if fields is not None and len(fields) in fits and (form.header or line):
            yield [fields[position] for position in positions]


def _quoted(line: str, delimiter: str) -> list[Any] | None:
    """Fields of a line with quotes, or None."""
    if len(delimiter) > 1:
        fields = line.split(delimiter)
        closed = not any(field.count(QUOTE) % 2 for field in fields)
        return [field.strip(QUOTE) for field in fields] if closed else None
    try:
        (fields,) = csv.reader([line], delimiter=delimiter)
    except (csv.Error, ValueError):
        return None
    return fields


def _json_rows(path: Path, form: Any, wanted: list[str]) -> Iterator[list[Any]]:
    """Yield the wanted values of JSON objects, one per line."""
    for row in map(_json_value, _lines(path, form)):
        if isinstance(row, dict):
            yield [_as_written(row.get(name)) for name in wanted]


def _json_value(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as_written(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def names_of(file: Path, given: TextFormat = GIVEN, *, private: bool = False) -> list[str]:
    """Names of all columns of a file, in order; their numbers where they have none."""
    from sfumato.data.readers import text_files
    from sfumato.data.readers.batches import matches

    (file,) = matches(file)[:1]
    if formats.is_array(file):
        return list(arrays.table_of(file).column_names)
    if formats.is_typed(file):
        return arrow.names_of(file)
    form = formats.resolved(file, given, private=private)
    return text_files.json_names(file, form) if form.layout else list(form.names)


def point_names(
    file: Path, beside: str | None = None, given: TextFormat = GIVEN, *, private: bool = False
) -> list[str]:
    """Names of the columns but one, without the row numbers that pandas writes first."""
    names = names_of(file, given, private=private)
    first = 1 if len(names) > 1 and names[0] in formats.INDEX_NAMES else 0
    return [name for name in names[first:] if name not in (beside, "__index_level_0__")]


def is_matrix(file: Path) -> bool:
    """Whether a file of NumPy or SciPy holds a matrix, whose columns have no names."""
    if file.suffix.lower() == ".npy":
        with suppress(ValueError, EOFError):  # of which whoever reads it tells
            return np.load(file, mmap_mode="r", allow_pickle=False).dtype.names is None
        return True
    if not formats.is_array(file):
        return False
    names = arrays.table_of(file).column_names
    return names in ([*map(str, range(len(names)))], [*arrays.SPARSE])


def write(path: Path, columns: dict[str, Any]) -> None:
    """Write columns as a table, atomically: .csv or .parquet."""
    write_table(path, pa.table({name: pa.array(values) for name, values in columns.items()}))


def _cast(column: Any) -> Any:
    """The column as numbers, or None where a cell is none."""
    try:
        return column.cast(pa.float64(), safe=False)
    except pa.ArrowException:
        return None


def _first_misfit(column: Any) -> int:
    """First row, from 1, that is no number, by bisection."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _cast(column.slice(0, middle)) is None else (middle, bad)
    return bad


def _stacked(columns: dict[str, Any]) -> np.ndarray:
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns.values()])


def _plain(column: Any) -> np.ndarray | None:
    if column is None:
        return None
    values = column.to_numpy(zero_copy_only=False)
    return np.asarray(values.astype(str) if values.dtype == object else values)


def read(
    file: Path,
    ids: Path | None,
    id_column: str | None,
    first: int = 0,
    given: TextFormat = GIVEN,
) -> tuple[np.ndarray, np.ndarray]:
    """Read ids and vectors, one per row; without ids, count from `first`."""
    beginning(file, "file of vectors")
    named = None
    if is_matrix(file):
        named, rows = _matrix_vectors(file, id_column)
    elif formats.is_typed(file) or ((form := formats.form_of(file)) and form.layout):
        named, rows = _typed_vectors(file, id_column)
    else:
        named, rows = _written_vectors(file, id_column, given)
    if ids is not None:
        if named is not None:
            raise ValueError("--ids and --id-column: give one of them.")
        named = _listed(ids)
    if named is None:
        named = np.arange(first, first + len(rows))
    if len(named) != len(rows):
        raise ValueError(f"{file}: has {len(rows)} vectors, but there are {len(named)} ids.")
    return named, rows


def matrix_of(file: Path) -> np.ndarray:
    """Matrix of a .npy, memory-mapped, or of a .npz."""
    if file.suffix.lower() == ".npz":
        table = arrays.table_of(file)
        if table.column_names == [*arrays.SPARSE]:
            return np.asarray(arrays.sparse_of(file).toarray())
        return _stacked(dict(zip(table.column_names, table.columns, strict=True)))
    try:
        rows: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"{file}: is no array of numbers that numpy.save wrote.") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise ValueError(
            f"{file}: must hold a matrix of numbers, one vector per row, not {rows.dtype} of shape "
            f"{rows.shape}."
        )
    return rows


def _matrix_vectors(file: Path, id_column: str | None) -> tuple[np.ndarray | None, np.ndarray]:
    rows = matrix_of(file)
    if id_column is None:
        return None, rows
    at = formats.position_of(file, [*map(str, range(rows.shape[1]))], id_column)
    ids = rows[:, at]
    if not np.array_equal(ids, np.rint(ids)):
        raise ValueError(f"{file}: --id-column must hold integers.")
    return ids.astype(np.int64), np.delete(rows, at, axis=1)


def _typed_vectors(file: Path, id_column: str | None) -> tuple[np.ndarray | None, np.ndarray]:
    from sfumato.data import read_batches

    names = [name for name in names_of(file) if name != "__index_level_0__"]
    if id_column is not None:
        id_column = names[formats.position_of(file, names, id_column)]
    table = pa.Table.from_batches(list(read_batches(file, names))).select(names)
    if id_column is None:
        return None, _matrix(file, table)
    return table.column(id_column).to_numpy(), _matrix(file, table.drop_columns([id_column]))


def _written_vectors(
    file: Path, id_column: str | None, given: TextFormat
) -> tuple[np.ndarray | None, np.ndarray]:
    """Vectors of delimited text: all columns but that of the ids are numbers."""
    if id_column is not None:
        known = names_of(file, given)
        id_column = known[formats.position_of(file, known, id_column)]
    names = point_names(file, id_column, given)
    which = "vectors have numbers alone, besides an --id-column."
    points, ids = PointFile(file, names, id_column, which=which, given=given).all()
    if ids is not None and not np.array_equal(ids, np.rint(ids)):
        raise ValueError(f"{file}: --id-column must hold integers.")
    matrix = _stacked(dict(zip(names, points.columns, strict=True)))
    whole = (matrix == np.rint(matrix)).all(axis=0)
    if whole.any() and not whole.all():  # a column of integers beside others is an id
        raise ValueError(f"{_wanted(file)}.")
    return None if ids is None else ids.astype(np.int64), matrix


def _wanted(file: Path) -> str:
    return (
        f"{file}: must have one column of lists of one length, or columns of numbers of one kind, "
        "besides an --id-column"
    )


def _matrix(file: Path, table: Any) -> np.ndarray:
    """One column of lists, or columns of numbers, as a matrix."""
    import pyarrow as pa

    columns = [column.combine_chunks() for column in table.columns]
    wanted = _wanted(file)
    if any(column.null_count for column in columns):
        raise ValueError(f"{wanted}, and nothing that is null.")
    if len(columns) == 1 and _lists(columns[0].type):
        lengths = np.asarray(columns[0].value_lengths())
        if lengths.size and (lengths != lengths[0]).any():
            raise ValueError(f"{wanted}.")
        flat = columns[0].flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat.reshape(len(table), lengths[0] if lengths.size else 0))
    kinds = (pa.types.is_floating, pa.types.is_integer)
    # A column of integers beside others is an id that was not named.
    if not columns or not any(all(is_so(column.type) for column in columns) for is_so in kinds):
        raise ValueError(f"{wanted}.")
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])


def _lists(kind: Any) -> bool:
    from pyarrow import types

    return any(
        is_so(kind) for is_so in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


def _listed(file: Path) -> np.ndarray:
    try:
        return np.array([_id(line) for line in file.read_text().split()], np.int64)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{file}: ids must be integers from 0 to 2**63 - 1, one per line."
        ) from None


def _id(line: str) -> int:
    if not line.isascii() or not line.isdigit():
        raise ValueError("no integer.")
    return int(line)

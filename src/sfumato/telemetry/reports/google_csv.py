"""The CSV files of google/rappor: parameters, counts, candidate maps and reports.

Errors name the line. Of the five columns of reports only cohort and irr are used.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from sfumato.core import arrow_compute as pc
from sfumato.core.file_format import atomic_writer, write_atomic
from sfumato.errors import ParameterError
from sfumato.privacy.random_source import SystemSource
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import ID_BYTES, Reports
from sfumato.telemetry.schemes.base import Scheme
from sfumato.telemetry.schemes.google_rappor import GoogleRappor
from sfumato.telemetry.schemes.rappor import Rappor

__all__ = [
    "CandidateMap",
    "read_counts_csv",
    "read_map_csv",
    "read_params_csv",
    "read_reports_csv",
    "write_counts_csv",
    "write_map_csv",
    "write_params_csv",
    "write_reports_csv",
]

HEADER = ["k", "h", "m", "p", "q", "f"]
MOST = 2**62  # a larger count is a mistake, and sums stay in range


@dataclass(frozen=True, eq=False, repr=False)
class CandidateMap:
    """Candidates and their cells as read from a map file, accepted by `decode` as candidates.

    Parameters
    ----------
    values : list of str
        Candidates.
    members : ndarray of shape (candidates, cohorts, s)
        Cells of each candidate in each cohort, int32; -1 fills up smaller sets.

    Examples
    --------
    >>> CandidateMap(["tea"], np.array([[[0, 3]]], np.int32))
    CandidateMap(1 candidates)
    """

    values: list[str]
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"CandidateMap({len(self)} candidates)"


def read_params_csv(
    path: str | os.PathLike[str], *, own: bool = False, metric: str = ""
) -> GoogleRappor | Rappor:
    """Read the parameters from a file with the columns k,h,m,p,q,f.

    Parameters
    ----------
    path : path_like
        CSV file of a header and one row.
    own : bool, default=False
        Whether to return a `Rappor`, which hashes values to other cells, instead of a
        `GoogleRappor`; for collections with a map file and more than 32 bits.
    metric : str, default=""
        Metric of the scheme, which the file does not state.

    Returns
    -------
    GoogleRappor or Rappor
        Scheme with k bits, h hashes, m cohorts and the probabilities f, p and q.

    Raises
    ------
    ValueError
        If the file is malformed or a parameter is out of range. The message names the line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "params.csv"
    ...     write_params_csv(path, GoogleRappor(16, 2, 64, f=0.5, p=0.25, q=0.75))
    ...     read_params_csv(path).bits
    16
    """
    rows = list(_rows(path))
    if not rows or rows[0][1] != HEADER:
        raise _malformed(path, 1, "the header must be k,h,m,p,q,f")
    if len(rows) != 2 or len(rows[1][1]) != len(HEADER):
        at = rows[1][0] if len(rows) > 1 else 2
        raise _malformed(
            path, at, "one row of six numbers must follow the header, and nothing else"
        )
    line, texts = rows[1]
    try:
        bits, hashes, cohorts = (int(text) for text in texts[:3])
        p, q, f = (float(text) for text in texts[3:])
    except ValueError:
        raise _malformed(path, line, "k, h and m must be integers, p, q and f numbers") from None
    try:
        return (Rappor if own else GoogleRappor)(
            bits, hashes, cohorts, f=f, p=p, q=q, metric=metric
        )
    except ValueError as error:
        sentence = f"{Path(path).name}, line {line}: {error}"
        if own or bits <= 32:
            raise ValueError(sentence) from None
        sentence += " With own=True it is read as sfumato's own parameters."
        raise ParameterError(sentence, owner="read_params_csv", parameter="own") from None


def write_params_csv(path: str | os.PathLike[str], scheme: GoogleRappor | Rappor) -> None:
    """Write the parameters k,h,m,p,q,f; a domain and the metric are not part of this format.

    Parameters
    ----------
    path : path_like
        CSV file to write.
    scheme : GoogleRappor or Rappor
        Parameters to write.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "params.csv"
    ...     write_params_csv(path, GoogleRappor(16, 2, 64, f=0.5))
    ...     path.read_text().splitlines()
    ['k,h,m,p,q,f', '16,2,64,0.0,1.0,0.5']
    """
    sizes = (scheme.bits, scheme.hashes, scheme.cohorts)
    _write(path, [HEADER, [*sizes, scheme.p, scheme.q, scheme.f]])


def read_counts_csv(path: str | os.PathLike[str], scheme: Scheme) -> Counts:
    """Read counts from a file with one row per cohort: its reports, then the marks of every cell.

    Parameters
    ----------
    path : path_like
        CSV file without a header.
    scheme : Scheme
        Parameters that the clients used.

    Returns
    -------
    Counts
        Counts without ids, so that reports added later are not compared with them.

    Raises
    ------
    ValueError
        If a count is missing, negative, or above the reports of its cohort. The message names the
        line.

    Examples
    --------
    >>> import tempfile
    >>> scheme = GoogleRappor(4, 1, 1, f=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "counts.csv"
    ...     _ = path.write_text("10,4,6,5,7")
    ...     read_counts_csv(path, scheme).cells
    array([[4, 6, 5, 7]])
    """
    counts, line = Counts(scheme, keep_ids=False), 0
    for cohort, (line, row) in enumerate(_rows(path)):
        if cohort >= scheme.cohorts:
            why = f"there must be {scheme.cohorts} rows, one per cohort, not more"
            raise _malformed(path, line, why)
        numbers = _numbers(path, line, row, scheme.cells + 1)
        if numbers.min() < 0:
            raise _malformed(path, line, "a count is negative")
        if numbers.max() > numbers[0]:
            raise _malformed(path, line, "a count is above the number of reports, the first column")
        if numbers[0] > MOST // scheme.cohorts:
            raise _malformed(path, line, "a count is too large to be true")
        counts.reports[cohort], counts.cells[cohort] = numbers[0], numbers[1:]
    if line == 0 or cohort + 1 != scheme.cohorts:
        raise _malformed(
            path, line + 1, f"there must be {scheme.cohorts} rows, one per cohort, not fewer"
        )
    return counts


def write_counts_csv(path: str | os.PathLike[str], counts: Counts) -> None:
    """Write one row per cohort: the number of reports, then the marks of every cell.

    Parameters
    ----------
    path : path_like
        CSV file to write.
    counts : Counts
        Counts to write; their ids and refused reports are not part of this format.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "counts.csv"
    ...     write_counts_csv(path, Counts(GoogleRappor(4, 1, 2, f=0.5)))
    ...     path.read_text().splitlines()
    ['0,0,0,0,0', '0,0,0,0,0']
    """
    _write(path, np.column_stack([counts.reports, counts.cells]).tolist())


def read_map_csv(path: str | os.PathLike[str], scheme: GoogleRappor | Rappor) -> CandidateMap:
    """Read candidates and their cells from a map file.

    A row is a candidate and hashes x cohorts positions, counted from 1 through all cohorts:
    ``cohort * k + cell + 1``. A position may occur twice; of rows with the same candidate the first
    is taken.

    Parameters
    ----------
    path : path_like
        CSV file without a header.
    scheme : GoogleRappor or Rappor
        Parameters, which give the number of positions.

    Returns
    -------
    CandidateMap
        Candidates in the order of the file, for `decode`.

    Raises
    ------
    ValueError
        If a row is malformed or a position out of range. The message names the line.

    Examples
    --------
    >>> import tempfile
    >>> scheme = GoogleRappor(8, 2, 1, f=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "map.csv"
    ...     _ = path.write_text("tea,1,4")
    ...     read_map_csv(path, scheme).members.tolist()
    [[[0, 3]]]
    """
    values: dict[str, np.ndarray] = {}
    size, columns = scheme.cohorts * scheme.cells, scheme.hashes * scheme.cohorts
    for line, row in _rows(path):
        positions = _numbers(path, line, row[1:], columns, "candidate")
        if positions.min() < 1 or positions.max() > size:
            raise _malformed(path, line, f"a position must be from 1 to {size}, k times m")
        values.setdefault(row[0], positions)
    positions = np.array(list(values.values()), np.int64).reshape(len(values), columns)
    return CandidateMap(list(values), _members(positions - 1, scheme.cohorts, scheme.cells))


def write_map_csv(
    path: str | os.PathLike[str], scheme: GoogleRappor | Rappor, candidates: Sequence[Any]
) -> None:
    """Write each candidate with its positions, as google/rappor's tool does: repeated ones as well.

    Parameters
    ----------
    path : path_like
        CSV file to write.
    scheme : GoogleRappor or Rappor
        Parameters, which give the cells of each candidate.
    candidates : sequence
        Texts or integers to write.

    Examples
    --------
    >>> import tempfile
    >>> scheme = GoogleRappor(16, 2, 2, f=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "map.csv"
    ...     write_map_csv(path, scheme, ["apple"])
    ...     path.read_text().strip()
    'apple,5,1,26,26'
    """
    cells = scheme.hashed if isinstance(scheme, GoogleRappor) else scheme.members
    values = list(candidates)
    positions = (
        cells(values) + 1 + scheme.cells * np.arange(scheme.cohorts)[:, np.newaxis]
        if values
        else np.empty((0, 1, 1), np.int64)
    )
    rows = positions.reshape(len(values), -1).tolist()
    _write(path, ([value, *row] for value, row in zip(values, rows, strict=True)))


def _members(positions: np.ndarray, cohorts: int, cells: int) -> np.ndarray:
    """Return cells by cohort from positions through all cohorts, in any order, repeated or not."""
    positions = np.sort(positions, axis=1)
    rows = positions.shape[0]
    fresh = np.ones(positions.shape, bool)
    fresh[:, 1:] = positions[:, 1:] != positions[:, :-1]
    row, at = np.nonzero(fresh)
    cohort, cell = np.divmod(positions[row, at], cells)
    group = row * cohorts + cohort
    begin = np.searchsorted(group, group)  # groups are in order, so this is where each begins
    rank = np.arange(group.size) - begin
    out = np.full((rows, cohorts, int(rank.max(initial=0)) + 1), -1, np.int32)
    out[row, cohort, rank] = cell
    return out


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every row that is not blank."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _malformed(path, line, "the text is not UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error:
        raise _malformed(path, reader.line_num, "the line is no CSV") from None


def _numbers(
    path: str | os.PathLike[str], line: int, row: list[str], wanted: int, first: str = ""
) -> np.ndarray:
    """Return the integers of a row, which must be `wanted` many."""
    if len(row) != wanted:
        more = f" after the {first}" if first else ""
        raise _malformed(path, line, f"there must be {wanted} numbers{more}, not {len(row)}")
    try:
        return np.array([int(text) for text in row], np.int64)
    except (ValueError, OverflowError):
        raise _malformed(path, line, "all but the candidate must be integers") from None


def _malformed(path: str | os.PathLike[str], line: int, why: str) -> ValueError:
    """Error that names the file and the line."""
    return ValueError(f"{Path(path).name}, line {line}: {why}.")


def _write(path: str | os.PathLike[str], rows: Any) -> None:
    """Write rows as CSV to a file that is either complete or absent."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_atomic(Path(path), out.getvalue().encode())


HEADERS = (("client", "user_id"), ("cohort",), ("bloom",), ("prr",), ("irr", "rappor"))
COLUMNS = ["client", "cohort", "bloom", "prr", "irr"]
EMPTY = pa.schema([(name, pa.binary()) for name in COLUMNS])


def read_reports_csv(path: str | os.PathLike[str], scheme: Scheme) -> Reports:
    """Read reports from a file with the columns client, cohort, bloom, prr, irr.

    Parameters
    ----------
    path : path_like
        CSV file with a header.
    scheme : Scheme
        Scheme of kind "bits"; irr is its cells as 0 and 1, the last cell first.

    Returns
    -------
    Reports
        All reports of the file; `refused` counts those left out.

    Raises
    ------
    ValueError
        If the header differs.

    Notes
    -----
    **Guarantee.** Only cohort and irr are read; the client and its secret columns (bloom, prr) are
    not stored. A line that is not a valid report is left out and counted in `refused` by its
    reason, as in `read_reports`: "unreadable", "cohort" (out of range) or "length" (of irr). The
    format has no report ids: each row gets a random one, so a file that is read twice is counted
    twice.

    Examples
    --------
    >>> import tempfile
    >>> scheme = GoogleRappor(4, 1, 2, f=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     _ = path.write_text("client,cohort,bloom,prr,irr" + chr(10) + "7,1,,,0101")
    ...     reports = read_reports_csv(path, scheme)
    >>> reports.cohorts.tolist(), reports.payload.tolist()
    ([1], [[5]])
    """
    _check_kind(scheme)
    refused: Counter[str] = Counter()
    table = _table(path, refused) if _rows_follow_header(path) else EMPTY.empty_table()
    rows = _report_rows(
        table["cohort"].combine_chunks(), table["irr"].combine_chunks(), scheme, refused
    )
    cohorts, payload = rows
    ids = np.empty((len(cohorts), ID_BYTES), np.uint8)
    SystemSource().fill(ids)
    return Reports(scheme, cohorts, payload, ids, +refused)


def write_reports_csv(path: str | os.PathLike[str], reports: Reports) -> None:
    """Write reports with the row number as client; bloom and prr are secret and left empty.

    Parameters
    ----------
    path : path_like
        CSV file to write.
    reports : Reports
        Reports of a scheme of kind "bits".

    Examples
    --------
    >>> import tempfile
    >>> reports = Reports(GoogleRappor(4, 1, 2, f=0.5), [1], np.array([[5]], np.uint8),
    ...                   np.zeros((1, 16), np.uint8))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "reports.csv"
    ...     write_reports_csv(path, reports)
    ...     path.read_text().splitlines()
    ['client,cohort,bloom,prr,irr', '0,1,,,0101']
    """
    scheme = reports.scheme
    _check_kind(scheme)
    bits = np.unpackbits(reports.payload, axis=1, bitorder="little", count=scheme.cells)
    digits = np.ascontiguousarray(bits[:, ::-1]) + np.uint8(ord("0"))
    rows, buffer = len(reports), pa.py_buffer(digits)
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int64) * scheme.cells)
    irr = pa.Array.from_buffers(pa.large_string(), rows, [None, offsets, buffer])
    empty = pa.nulls(rows, pa.string())
    columns = [pa.array(np.arange(rows)), pa.array(reports.cohorts), empty, empty, irr]
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="none")
    with atomic_writer(Path(path)) as file:
        file.write((",".join(COLUMNS) + "\n").encode())
        arrow_csv.write_csv(pa.table(columns, COLUMNS), file, options)


def _check_kind(scheme: Scheme) -> None:
    """Raise ValueError if the reports of a scheme are not bits."""
    if scheme.kind != "bits":
        raise ValueError(
            f"reports: this format is for schemes of kind 'bits', not {scheme.kind!r}."
        )


def _rows_follow_header(path: str | os.PathLike[str]) -> bool:
    """Check the header and return whether anything follows it."""
    with open(path, "rb") as file:
        first, more = file.readline(1 << 10), file.read(1)
    try:
        row = next(csv.reader([first.decode("utf-8-sig")]), [])
    except (UnicodeDecodeError, csv.Error):
        row = []
    if len(row) != len(HEADERS) or any(
        name not in known for name, known in zip(row, HEADERS, strict=True)
    ):
        raise _malformed(path, 1, "the header must be client,cohort,bloom,prr,irr")
    return bool(more)


def _table(path: str | os.PathLike[str], refused: Counter[str]) -> pa.Table:
    """Return all lines of five fields as bytes; count the others."""

    def note(_: Any) -> str:
        refused["unreadable"] += 1
        return "skip"

    kinds = {name: pa.binary() for name in COLUMNS}
    try:
        return arrow_csv.read_csv(
            Path(path),
            # In latin1 any byte is a letter; without quotes no line extends into another.
            arrow_csv.ReadOptions(
                use_threads=False, column_names=COLUMNS, skip_rows=1, encoding="latin1"
            ),
            arrow_csv.ParseOptions(
                quote_char=False, invalid_row_handler=note, ignore_empty_lines=True
            ),
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=kinds, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        raise ValueError(f"{Path(path).name}: the text after the header is no CSV.") from None


def _report_rows(
    cohorts: pa.Array, irr: pa.Array, scheme: Scheme, refused: Counter[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return cohorts and payloads of the rows that can be reports; count the others."""
    readable = np.asarray(pc.match_substring_regex(cohorts, "^[0-9]{1,9}$"))
    readable &= np.asarray(pc.match_substring_regex(irr, "^[01]*$"))
    numbers = pc.if_else(pa.array(readable), cohorts, b"0").cast(pa.string()).cast(pa.int64())
    right = np.asarray(pc.binary_length(irr)) == scheme.cells
    known = np.asarray(numbers) < scheme.cohorts
    for reason, invalid in (
        ("unreadable", ~readable),
        ("length", readable & ~right),
        ("cohort", readable & right & ~known),
    ):
        refused[reason] += int(invalid.sum())
    good = readable & right & known
    digits = np.frombuffer(b"".join(irr.filter(pa.array(good)).to_pylist()), np.uint8)
    bits = digits.reshape(-1, scheme.cells)[:, ::-1] - np.uint8(ord("0"))
    payload = np.packbits(bits, axis=1, bitorder="little")
    return np.asarray(numbers)[good].astype(np.int32), payload

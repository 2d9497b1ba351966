"""The CSV files of google/rappor: parameters, counts, maps; what is wrong is told by its line.

Reports in google/rappor's CSV form: of its five columns only cohort and irr are used.
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
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from sfumato.core.file_format import write_atomic, written_whole
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
    """Candidates and their cells as a map file gives them; `decode` takes it for the candidates.

    values: the candidates; members: int32 (candidates, cohorts, s), -1 where a set is smaller.

    Parameters
    ----------
    values : list
        TODO.
    members : ndarray
        TODO.
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
    """The parameters in a file of the columns k,h,m,p,q,f.

    Parameters
    ----------
    path : path_like
        TODO.
    own : bool, default=False
        Whether to take the numbers as those of our own `Rappor`, whose cells are others, as for
        collections with a map file and more than 32 bits.
    metric : str, default=""
        Of the scheme.

    Returns
    -------
    GoogleRappor or Rappor
        The parameters in a file of the columns k,h,m,p,q,f.
    """
    rows = list(_rows(path))
    if not rows or rows[0][1] != HEADER:
        raise _wrong(path, 1, "the header must be k,h,m,p,q,f")
    if len(rows) != 2 or len(rows[1][1]) != len(HEADER):
        at = rows[1][0] if len(rows) > 1 else 2
        raise _wrong(path, at, "one row of six numbers must follow the header, and nothing else")
    line, texts = rows[1]
    try:
        bits, hashes, cohorts = (int(text) for text in texts[:3])
        p, q, f = (float(text) for text in texts[3:])
    except ValueError:
        raise _wrong(path, line, "k, h and m must be integers, p, q and f numbers") from None
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
    """Write k,h,m,p,q,f and their values; a domain and the metric are not part of this format.

    Parameters
    ----------
    path : path_like
        TODO.
    scheme : GoogleRappor or Rappor
        TODO.
    """
    sizes = (scheme.bits, scheme.hashes, scheme.cohorts)
    _write(path, [HEADER, [*sizes, scheme.p, scheme.q, scheme.f]])


def read_counts_csv(path: str | os.PathLike[str], scheme: Scheme) -> Counts:
    """The counts in a file of a row for each cohort: the reports, then the marks of every cell.

    Such counts hold no ids, so reports that are added later are not compared with them.

    Parameters
    ----------
    path : path_like
        TODO.
    scheme : Scheme
        TODO.

    Returns
    -------
    Counts
        The counts in a file of a row for each cohort: the reports, then the marks of every cell.
    """
    counts, line = Counts(scheme, keep_ids=False), 0
    for cohort, (line, row) in enumerate(_rows(path)):
        if cohort >= scheme.cohorts:
            raise _wrong(path, line, f"there must be {scheme.cohorts} rows, one a cohort, not more")
        numbers = _numbers(path, line, row, scheme.cells + 1)
        if numbers.min() < 0:
            raise _wrong(path, line, "a count is negative")
        if numbers.max() > numbers[0]:
            raise _wrong(path, line, "a count is above the number of reports, the first column")
        if numbers[0] > MOST // scheme.cohorts:
            raise _wrong(path, line, "a count is too large to be true")
        counts.reports[cohort], counts.cells[cohort] = numbers[0], numbers[1:]
    if line == 0 or cohort + 1 != scheme.cohorts:
        raise _wrong(
            path, line + 1, f"there must be {scheme.cohorts} rows, one a cohort, not fewer"
        )
    return counts


def write_counts_csv(path: str | os.PathLike[str], counts: Counts) -> None:
    """Write a row for each cohort: the number of reports, then the marks of every cell.

    Parameters
    ----------
    path : path_like
        TODO.
    counts : Counts
        TODO.
    """
    _write(path, np.column_stack([counts.reports, counts.cells]).tolist())


def read_map_csv(path: str | os.PathLike[str], scheme: GoogleRappor | Rappor) -> CandidateMap:
    """The candidates of a map file and their cells.

    A row is a candidate and hashes x cohorts places, counted from 1 through all cohorts: place
    cohort * k + cell + 1. A place may stand twice; of rows for one candidate the first is taken.

    Parameters
    ----------
    path : path_like
        TODO.
    scheme : GoogleRappor or Rappor
        TODO.

    Returns
    -------
    CandidateMap
        The candidates of a map file and their cells.
    """
    values: dict[str, np.ndarray] = {}
    size, columns = scheme.cohorts * scheme.cells, scheme.hashes * scheme.cohorts
    for line, row in _rows(path):
        positions = _numbers(path, line, row[1:], columns, "candidate")
        if positions.min() < 1 or positions.max() > size:
            raise _wrong(path, line, f"a place must be from 1 to {size}, k times m")
        values.setdefault(row[0], positions)
    positions = np.array(list(values.values()), np.int64).reshape(len(values), columns)
    return CandidateMap(list(values), _members(positions - 1, scheme.cohorts, scheme.cells))


def write_map_csv(
    path: str | os.PathLike[str], scheme: GoogleRappor | Rappor, candidates: Sequence[Any]
) -> None:
    """Write each candidate with its places, as the published tool does: repeated ones as well.

    Parameters
    ----------
    path : path_like
        TODO.
    scheme : GoogleRappor or Rappor
        TODO.
    candidates : sequence
        TODO.
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
    """Cells by cohort from places through all cohorts, in any order, repeated or not."""
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
    """The line number and the fields of every row that is not blank."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _wrong(path, line, "the text is not UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error:
        raise _wrong(path, reader.line_num, "the line is no CSV") from None


def _numbers(
    path: str | os.PathLike[str], line: int, row: list[str], wanted: int, first: str = ""
) -> np.ndarray:
    if len(row) != wanted:
        more = f" after the {first}" if first else ""
        told = f"there must be {wanted} numbers{more}, not {len(row)}"
        raise _wrong(path, line, told)
    try:
        return np.array([int(text) for text in row], np.int64)
    except (ValueError, OverflowError):
        raise _wrong(path, line, "all but the candidate must be integers") from None


def _wrong(path: str | os.PathLike[str], line: int, why: str) -> ValueError:
    return ValueError(f"{Path(path).name}, line {line}: {why}.")


def _write(path: str | os.PathLike[str], rows: Any) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_atomic(Path(path), out.getvalue().encode())


HEADERS = (("client", "user_id"), ("cohort",), ("bloom",), ("prr",), ("irr", "rappor"))
COLUMNS = ["client", "cohort", "bloom", "prr", "irr"]
EMPTY = pa.table({name: pa.array([], pa.binary()) for name in COLUMNS})


def read_reports_csv(path: str | os.PathLike[str], scheme: Scheme) -> Reports:
    """The reports in a file of the columns client, cohort, bloom, prr, irr, as one `Reports`.

    Parameters
    ----------
    path : path_like
        TODO.
    scheme : Scheme
        Of kind "bits"; irr is its cells as 0 and 1, the last cell first.

    Returns
    -------
    Reports
        The reports in a file of the columns client, cohort, bloom, prr, irr, as one `Reports`.

    Notes
    -----
    **Guarantee.** Only cohort and irr are read: who the client was and what it hid (bloom, prr) is
    not kept. Each line is read by itself; one that cannot be a report is left out and counted in
    `refused` by its reason, as in `read_reports`: "unreadable", a "cohort" that is not there, irr
    of another "length". Only a wrong header raises. The format has no ids, so each row gets a
    random one, and a file that is read twice is counted twice.
    """
    _check_kind(scheme)
    refused: Counter[str] = Counter()
    table = _table(path, refused) if _rows_follow_header(path) else EMPTY
    rows = _report_rows(
        table["cohort"].combine_chunks(), table["irr"].combine_chunks(), scheme, refused
    )
    cohorts, payload = rows
    ids = np.empty((len(cohorts), ID_BYTES), np.uint8)
    SystemSource().fill(ids)
    return Reports(scheme, cohorts, payload, ids, +refused)


def write_reports_csv(path: str | os.PathLike[str], reports: Reports) -> None:
    """Write reports, the row's number for the client; bloom and prr are secret and left empty.

    Parameters
    ----------
    path : path_like
        TODO.
    reports : Reports
        TODO.
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
    with written_whole(Path(path)) as file:
        file.write((",".join(COLUMNS) + "\n").encode())
        arrow_csv.write_csv(pa.table(columns, COLUMNS), file, options)


def _check_kind(scheme: Scheme) -> None:
    if scheme.kind != "bits":
        raise ValueError(
            f"reports: this format is for schemes of kind 'bits', not {scheme.kind!r}."
        )


def _rows_follow_header(path: str | os.PathLike[str]) -> bool:
    """Whether there is more than the header, which must be the right one."""
    with open(path, "rb") as file:
        first, more = file.readline(1 << 10), file.read(1)
    try:
        row = next(csv.reader([first.decode("utf-8-sig")]), [])
    except (UnicodeDecodeError, csv.Error):
        row = []
    if len(row) != len(HEADERS) or any(
        name not in known for name, known in zip(row, HEADERS, strict=True)
    ):
        raise _wrong(path, 1, "the header must be client,cohort,bloom,prr,irr")
    return bool(more)


def _table(path: str | os.PathLike[str], refused: Counter[str]) -> pa.Table:
    """All lines of five fields as bytes; the others are counted."""

    def note(_: Any) -> str:
        refused["unreadable"] += 1
        return "skip"

    kinds = {name: pa.binary() for name in COLUMNS}
    try:
        return arrow_csv.read_csv(
            Path(path),
            # In latin1 any byte is a letter; without quotes no line reaches into another.
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
    """Cohorts and payloads of the rows that can be reports."""
    readable = np.asarray(pc.match_substring_regex(cohorts, "^[0-9]{1,9}$"))
    readable &= np.asarray(pc.match_substring_regex(irr, "^[01]*$"))
    numbers = pc.if_else(pa.array(readable), cohorts, b"0").cast(pa.string()).cast(pa.int64())
    right = np.asarray(pc.binary_length(irr)) == scheme.cells
    known = np.asarray(numbers) < scheme.cohorts
    for reason, wrong in (
        ("unreadable", ~readable),
        ("length", readable & ~right),
        ("cohort", readable & right & ~known),
    ):
        refused[reason] += int(wrong.sum())
    good = readable & right & known
    digits = np.frombuffer(b"".join(irr.filter(pa.array(good)).to_pylist()), np.uint8)
    bits = digits.reshape(-1, scheme.cells)[:, ::-1] - np.uint8(ord("0"))
    payload = np.packbits(bits, axis=1, bitorder="little")
    return np.asarray(numbers)[good].astype(np.int32), payload

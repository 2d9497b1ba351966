"""Reports in google/rappor's CSV form: of its five columns only cohort and irr are used."""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from sfumato.privacy._source import SystemSource
from sfumato.sketch._format import written_whole
from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry.reports import ID_BYTES, Reports

__all__ = ["read_reports_csv", "write_reports_csv"]

HEADERS = (("client", "user_id"), ("cohort",), ("bloom",), ("prr",), ("irr", "rappor"))
COLUMNS = ["client", "cohort", "bloom", "prr", "irr"]
EMPTY = pa.table({name: pa.array([], pa.binary()) for name in COLUMNS})


def read_reports_csv(path: str | os.PathLike[str], scheme: Scheme) -> Reports:
    """The reports in a file of the columns client, cohort, bloom, prr, irr, as one `Reports`.

    Guarantee: only cohort and irr are read: who the client was and what it hid (bloom, prr) is not
    kept. What is wrong raises ValueError that names the line and shows nothing of it. The format
    has no ids, so each row gets a random one, and a file that is read twice is counted twice.
    Parameters: scheme, of kind "bits"; irr is its cells as 0 and 1, the last cell first.
    """
    _check_kind(scheme)
    table = _table(path) if _rows_follow_header(path) else EMPTY
    cohorts = _cohorts(path, table["cohort"].combine_chunks(), scheme.cohorts)
    payload = _payload(path, table["irr"].combine_chunks(), scheme.cells)
    ids = np.empty((len(cohorts), ID_BYTES), np.uint8)
    SystemSource().fill(ids)
    return Reports(scheme, cohorts, payload, ids)


def write_reports_csv(path: str | os.PathLike[str], reports: Reports) -> None:
    """Write reports, the row's number for the client; bloom and prr are secret and left empty."""
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


def _table(path: str | os.PathLike[str]) -> pa.Table:
    """All rows as bytes; a row of another length is told by its line."""
    uneven: list[int] = []

    def note(row: Any) -> str:
        uneven.append(int(row.number))
        return "skip"

    kinds = {name: pa.binary() for name in COLUMNS}
    try:
        table = arrow_csv.read_csv(
            Path(path),
            # Rows are numbered, and so are found again, where one thread reads; in latin1 any byte
            # is a letter, so that none stops the reading.
            arrow_csv.ReadOptions(
                use_threads=False, column_names=COLUMNS, skip_rows=1, encoding="latin1"
            ),
            arrow_csv.ParseOptions(invalid_row_handler=note, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=kinds, strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        raise ValueError(f"{Path(path).name}: the text after the header is no CSV.") from None
    if uneven:
        raise _wrong(path, uneven[0], "there must be five columns")
    return table


def _cohorts(path: str | os.PathLike[str], texts: pa.Array, cohorts: int) -> np.ndarray:
    whole = pc.match_substring_regex(texts, "^[0-9]{1,9}$")
    _refuse(path, ~np.asarray(whole), "the cohort must be a whole number")
    numbers = np.asarray(texts.cast(pa.string()).cast(pa.int64()))
    _refuse(path, numbers >= cohorts, f"the cohort must be from 0 to {cohorts - 1}")
    return numbers.astype(np.int32)


def _payload(path: str | os.PathLike[str], texts: pa.Array, cells: int) -> np.ndarray:
    lengths = np.asarray(pc.binary_length(texts))
    _refuse(path, lengths != cells, f"irr must have {cells} digits, one a bit")
    data = texts.buffers()[2]  # no text stands between two of one length
    joined = np.frombuffer(data if len(texts) else b"", np.uint8)
    begin = cells * texts.offset
    digits = joined[begin : begin + cells * len(texts)].reshape(-1, cells) - np.uint8(ord("0"))
    _refuse(path, np.any(digits > 1, axis=1), "irr must be digits 0 and 1")
    return np.packbits(digits[:, ::-1], axis=1, bitorder="little")


def _refuse(path: str | os.PathLike[str], wrong: np.ndarray, why: str) -> None:
    if wrong.any():
        raise _wrong(path, int(np.argmax(wrong)) + 2, why)


def _wrong(path: str | os.PathLike[str], line: int, why: str) -> ValueError:
    return ValueError(f"{Path(path).name}, line {line}: {why}.")

"""Reports in google/rappor's CSV form: of its five columns only cohort and irr are used."""

import csv
import os
from collections import Counter
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
    kept. Each line is read by itself; one that cannot be a report is left out and counted in
    `refused` by its reason, as in `read_reports`: "unreadable", a "cohort" that is not there, irr
    of another "length". Only a wrong header raises. The format has no ids, so each row gets a
    random one, and a file that is read twice is counted twice.
    Parameters: scheme, of kind "bits"; irr is its cells as 0 and 1, the last cell first.
    """
    _check_kind(scheme)
    refused: Counter[str] = Counter()
    table = _table(path, refused) if _rows_follow_header(path) else EMPTY
    rows = _rows(table["cohort"].combine_chunks(), table["irr"].combine_chunks(), scheme, refused)
    cohorts, payload = rows
    ids = np.empty((len(cohorts), ID_BYTES), np.uint8)
    SystemSource().fill(ids)
    return Reports(scheme, cohorts, payload, ids, +refused)


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


def _rows(
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


def _wrong(path: str | os.PathLike[str], line: int, why: str) -> ValueError:
    return ValueError(f"{Path(path).name}, line {line}: {why}.")

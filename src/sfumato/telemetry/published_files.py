"""The CSV files of google/rappor: parameters, counts, maps; what is wrong is told by its line."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.sketch._format import write_whole
from sfumato.telemetry._scheme import Scheme
from sfumato.telemetry.aggregate import Counts
from sfumato.telemetry.params import Params
from sfumato.telemetry.published import Published

__all__ = [
    "Map",
    "read_counts_csv",
    "read_map_csv",
    "read_params_csv",
    "write_counts_csv",
    "write_map_csv",
    "write_params_csv",
]

HEADER = ["k", "h", "m", "p", "q", "f"]
MOST = 2**62  # a larger count is a mistake, and sums stay in range


@dataclass(frozen=True, eq=False, repr=False)
class Map:
    """Candidates and their cells as a map file gives them; `decode` takes it for the candidates.

    values: the candidates; members: int32 (candidates, cohorts, s), -1 where a set is smaller.
    """

    values: list[str]
    members: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Map({len(self)} candidates)"


def read_params_csv(
    path: str | os.PathLike[str], *, own: bool = False, metric: str = ""
) -> Published | Params:
    """The parameters in a file of the columns k,h,m,p,q,f.

    Parameters: own, whether to take the numbers as those of our own `Params`, whose cells are
    others, as for collections with a map file and more than 32 bits; metric, of the scheme.
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
        raise _wrong(path, line, "k, h and m must be whole numbers, p, q and f numbers") from None
    try:
        return (Params if own else Published)(bits, hashes, cohorts, f=f, p=p, q=q, metric=metric)
    except ValueError as error:
        hint = "" if own or bits <= 32 else " With own=True it is read as sfumato's own parameters."
        raise ValueError(f"{Path(path).name}, line {line}: {error}{hint}") from None


def write_params_csv(path: str | os.PathLike[str], scheme: Published | Params) -> None:
    """Write k,h,m,p,q,f and their values; a domain and the metric are not part of this format."""
    sizes = (scheme.bits, scheme.hashes, scheme.cohorts)
    _write(path, [HEADER, [*sizes, scheme.p, scheme.q, scheme.f]])


def read_counts_csv(path: str | os.PathLike[str], scheme: Scheme) -> Counts:
    """The counts in a file of a row for each cohort: the reports, then the marks of every cell.

    Such counts hold no ids, so reports that are added later are not compared with them.
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
    """Write a row for each cohort: the number of reports, then the marks of every cell."""
    _write(path, np.column_stack([counts.reports, counts.cells]).tolist())


def read_map_csv(path: str | os.PathLike[str], scheme: Published | Params) -> Map:
    """The candidates of a map file and their cells.

    A row is a candidate and hashes x cohorts places, counted from 1 through all cohorts: place
    cohort * k + cell + 1. A place may stand twice; of rows for one candidate the first is taken.
    """
    values: dict[str, np.ndarray] = {}
    size, columns = scheme.cohorts * scheme.cells, scheme.hashes * scheme.cohorts
    for line, row in _rows(path):
        places = _numbers(path, line, row[1:], columns, "candidate")
        if places.min() < 1 or places.max() > size:
            raise _wrong(path, line, f"a place must be from 1 to {size}, k times m")
        values.setdefault(row[0], places)
    places = np.array(list(values.values()), np.int64).reshape(len(values), columns)
    return Map(list(values), _members(places - 1, scheme.cohorts, scheme.cells))


def write_map_csv(
    path: str | os.PathLike[str], scheme: Published | Params, candidates: Sequence[Any]
) -> None:
    """Write each candidate with its places, as the published tool does: repeated ones as well."""
    cells = scheme.hashed if isinstance(scheme, Published) else scheme.members
    values = list(candidates)
    places = (
        cells(values) + 1 + scheme.cells * np.arange(scheme.cohorts)[:, np.newaxis]
        if values
        else np.empty((0, 1, 1), np.int64)
    )
    rows = places.reshape(len(values), -1).tolist()
    _write(path, ([value, *row] for value, row in zip(values, rows, strict=True)))


def _members(places: np.ndarray, cohorts: int, cells: int) -> np.ndarray:
    """Cells by cohort from places through all cohorts, in any order, repeated or not."""
    places = np.sort(places, axis=1)
    rows = places.shape[0]
    fresh = np.ones(places.shape, bool)
    fresh[:, 1:] = places[:, 1:] != places[:, :-1]
    row, at = np.nonzero(fresh)
    cohort, cell = np.divmod(places[row, at], cells)
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
        raise _wrong(path, line, "all but the candidate must be whole numbers") from None


def _wrong(path: str | os.PathLike[str], line: int, why: str) -> ValueError:
    return ValueError(f"{Path(path).name}, line {line}: {why}.")


def _write(path: str | os.PathLike[str], rows: Any) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    write_whole(Path(path), out.getvalue().encode())

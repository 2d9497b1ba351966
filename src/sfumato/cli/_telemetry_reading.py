"""What telemetry commands read: reports and counts of many files, and the candidates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sfumato.cli import _telemetry_values
from sfumato.cli._telemetry_files import check_file, check_reports, counts, is_counts, is_csv

__all__ = ["candidates", "collected", "in_order", "kept"]


def collected(command: str, files: list[Path], of: Any, tell: Any) -> Any:
    """The counts of all files; counts come first, so that reports in them are found again."""
    from sfumato.telemetry import Counts, read_counts_csv

    for file in files:
        check_reports(file)
    total, loose = Counts(of), []
    for file in sorted(files, key=lambda each: not is_counts(each)):
        if is_counts(file):
            more = read_counts_csv(file, of) if is_csv(file) else counts(file)
            if more.keep_ids:
                _merge(total, more, file)
            else:
                loose.append((file, more))
        else:
            for batch in _batches([file], of):
                total.update(batch)
                tell(len(total), None)
    for file, more in loose:
        total = total.without_ids()
        _merge(total, more, file)
    return _with_any(command, files, total)


def kept(command: str, files: list[Path], of: Any, tell: Any) -> Any:
    """The reports of the files that `collected` would count, as they were sent."""
    from sfumato.telemetry import Reports
    from sfumato.telemetry._fitting import counted_once
    from sfumato.telemetry._seen import Seen
    from sfumato.telemetry.reports import added

    for file in files:
        check_reports(file)
        if is_counts(file):
            raise ValueError(f"{file}: holds counts; the likelihood needs files of reports.")
    batches, seen, rows = [_none(of)], Seen(), 0
    for batch in _batches(files, of):
        keep, refused, seen = counted_once(of, batch, seen)
        one = batch.take(keep)
        columns = (one.cohorts, one.payload, one.ids)
        batches.append(Reports(of, *columns, added([batch.refused, refused])))
        rows += len(one)
        tell(rows, None)
    return _with_any(command, files, Reports.concat(batches))


def in_order(command: str, file: Path, of: Any) -> Any:
    """The reports of one file, line by line; one that is refused would part the pairs of lines."""
    from sfumato.telemetry import Reports

    check_reports(file)
    if is_counts(file):
        raise ValueError(f"{file}: holds counts; {command} needs files of reports.")
    whole = Reports.concat([_none(of), *_batches([file], of)])
    if whole.refused:
        told = ", ".join(f"{reason} {number}" for reason, number in whole.refused.items())
        raise ValueError(
            f"{file}: lines must pair, but some are no reports of these parameters: {told}. "
            "Leave those clients out of both files."
        )
    return whole


def candidates(
    command: str,
    file: Path | None,
    column: str | None,
    of: Any,
    notes: list[str],
    option: str = "--candidates",
) -> Any:
    """The values to look for: of a file, of google/rappor's map, or all that the scheme has.

    What people should know of the file is added to the notes.
    """
    if file is None:
        if of.domain is None:
            raise ValueError(f"{command}: give {option}, a file of the values to look for.")
        return of.domain
    check_file(file, "candidates")
    if is_csv(file) and column is None:
        return _map(file, of, option)
    numbers = getattr(of, "edges", None) is not None
    found = _telemetry_values.listed(file, column, numbers=numbers, notes=notes)
    if not found:
        raise ValueError(f"{command}: {file} holds no candidates; write one value a line.")
    return found


def _map(file: Path, of: Any, option: str) -> Any:
    from sfumato.telemetry import read_map_csv

    try:
        if not hasattr(of, "hashes"):
            raise ValueError(f"{file}: a map is for RAPPOR only, not {of.name}.")
        return read_map_csv(file, of)
    except ValueError as error:
        table = "For a table add --column NAME; for" if option == "--candidates" else "For"
        error.add_note(
            f"{file} is read as google/rappor's map. {table} a plain list, one value a line, name "
            "it .txt."
        )
        raise


def _none(of: Any) -> Any:
    import numpy as np

    from sfumato.telemetry import Reports

    return Reports(of, [], np.empty((0, of.payload_bytes), np.uint8), np.empty((0, 16), np.uint8))


def _batches(files: list[Path], of: Any) -> Iterator[Any]:
    from sfumato.telemetry import read_reports, read_reports_csv

    for file in files:
        if is_csv(file):
            yield read_reports_csv(file, of)
        else:
            yield from read_reports(file, of)


def _with_any(command: str, files: list[Path], read: Any) -> Any:
    """What was read; where every report was refused, the parameters or the files are wrong."""
    if not (len(read) or read.refused or any(map(is_counts, files))):
        raise ValueError(f"{command}: {', '.join(map(str, files))} holds no report.")
    if not read.refused or len(read):
        return read
    told = ", ".join(f"{reason} {number}" for reason, number in read.refused.items())
    remedy = "Give the parameters that the clients had."
    if set(read.refused) == {"unreadable"}:
        remedy = "Give files that telemetry encode wrote, or lines of that form."
    raise ValueError(
        f"{command}: no report fits the parameters {read.scheme.fingerprint}; refused are: {told}. "
        + remedy
    )


def _merge(total: Any, more: Any, file: Path) -> None:
    try:
        total.merge(more)
    except (ValueError, TypeError) as error:
        error.add_note(f"({file})")
        raise

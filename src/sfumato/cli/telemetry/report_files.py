"""Files of telemetry: parameters and counts, ours or google/rappor's, and how to recognise them.

What telemetry commands read: reports and counts of many files, and the candidates.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.telemetry import values
from sfumato.data.files import beginning

__all__ = [
    "Parameters",
    "candidates",
    "check_file",
    "check_reports",
    "collected",
    "counted",
    "counts",
    "deduplicated",
    "discovery",
    "holds_parameters",
    "in_order",
    "is_counts",
    "is_csv",
    "parameters",
    "reported",
    "scheme",
    "scheme_for",
    "scheme_of",
    "write_counts",
    "write_scheme",
]

Parameters = Annotated[
    Path | None,
    typer.Option("--params", help="File of the parameters of the reports; counts hold their own."),
]
LARGEST = 1 << 26  # bytes of a file of parameters
MAGIC = b"SFUM"  # of all files of ours that are not text


def holds_parameters(file: Path) -> bool:
    """Whether a file begins as parameters do; they may still be wrong."""
    from sfumato.core.storage import content_of

    return file.is_file() and content_of(file) == "parameters"


def reported(file: Path) -> str | None:
    """The fingerprint in the first line of a file of reports, "" if cut off; None in others."""
    from sfumato.core.storage import content_of

    if not file.is_file() or content_of(file) != "reports":
        return None
    named = re.search(rb'"params"\s*:\s*"([0-9a-f]{16})"', _begin(file))
    return named[1].decode() if named else ""


def is_counts(file: Path) -> bool:
    """Whether a file is read as counts; of google/rappor's files, one that has no header."""
    begin = _begin(file)
    if is_csv(file):
        return not begin.startswith((b"client,", b"user_id,"))
    return begin.startswith(MAGIC)


def scheme(file: Path, **csv: Any) -> Any:
    """The scheme in a file of parameters, ours (JSON) or google/rappor's (CSV, with options)."""
    from sfumato.telemetry import read_params_csv
    from sfumato.telemetry.schemes.base import read_scheme

    check_file(file, "parameters")
    if file.stat().st_size > LARGEST:
        raise ValueError(f"{file}: is no file of parameters: it has more than {LARGEST} bytes.")
    try:
        if is_csv(file):
            return read_params_csv(file, **csv)
        text = file.read_text(encoding="utf-8")
        if not text.strip():
            raise ValueError("is empty; telemetry params makes a file of parameters.")
        if reported(file) is not None:
            raise ValueError("holds reports; --params takes the file that telemetry params made.")
        if _holds_discovery(file):
            raise ValueError("holds the parameters of a discovery; telemetry discover takes them.")
        return read_scheme(text)
    except UnicodeDecodeError:
        raise ValueError(f"{file}: is no file of parameters; telemetry params makes one.") from None
    except ValueError as error:
        if is_csv(file):  # which names the file and the line
            raise
        raise ValueError(f"{file}: {error}") from None


def discovery(file: Path) -> Any:
    """The discovery in a file of parameters."""
    from sfumato.telemetry import PrefixDiscovery

    check_file(file, "parameters")
    if not _holds_discovery(file):
        scheme(file)  # says what is wrong with a file that holds no parameters
        raise ValueError(
            f"{file}: holds the parameters of a scheme; telemetry params --scheme "
            f"{PrefixDiscovery.name} makes those of a discovery."
        )
    try:
        return PrefixDiscovery.from_json(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def parameters(file: Path, **csv: Any) -> Any:
    """The scheme or the discovery in a file of parameters."""
    check_file(file, "parameters")
    return discovery(file) if _holds_discovery(file) else scheme(file, **csv)


def _holds_discovery(file: Path) -> bool:
    """Whether a file begins as the parameters of a discovery do."""
    return holds_parameters(file) and bool(
        re.search(rb'"scheme"\s*:\s*"prefix-discovery"', _begin(file))
    )


def write_scheme(path: Path, made: Any) -> None:
    """Write parameters: as JSON, or as google/rappor does where the name ends in .csv."""
    from sfumato.core.file_format import write_atomic
    from sfumato.telemetry import write_params_csv

    if not is_csv(path):
        write_atomic(path, made.to_json().encode() + b"\n")
    elif hasattr(made, "hashes"):
        write_params_csv(path, made)
    else:
        raise ValueError(f"{path}: the CSV is for RAPPOR only, not {made.name}; name it .json.")


def scheme_for(command: str, files: list[Path], params: Path | None) -> Any:
    """The scheme of the files: that of the parameters, or of the first counts among them."""
    for file in files:
        check_reports(file, "" if params else f"; write --params {file}")
    if params is not None:
        return scheme(params)
    held = [file for file in files if is_counts(file) and not is_csv(file)]
    if not held:
        raise ValueError(f"{command}: give --params, the parameters that the clients used.")
    return counts(held[0]).scheme


def scheme_of(command: str, context: Any, files: list[Path], params: Path | None) -> Any:
    """The scheme of the files, which on Spark the parameters must tell."""
    if not engines.on_spark(context):
        return scheme_for(command, files, params)
    if params is None:
        raise ValueError(f"{command}: give --params, the parameters that the clients used.")
    return scheme(params)


def counted(
    command: str, context: Any, files: list[Path], params: Path | None, advance: Any
) -> Any:
    """The counts of all files; on Spark of Parquet files with the columns cohort, payload, id."""
    of = scheme_of(command, context, files, params)
    with engines.chosen(context) as engine:
        if engine is None:
            return collected(command, files, of, advance)
        from sfumato.telemetry import count_reports

        found = count_reports([engines.address(context, each) for each in files], of, engine=engine)
        return _with_any(command, files, found)


def counts(file: Path) -> Any:
    """The counts in a file that aggregate wrote."""
    from sfumato.sketch import SketchFormatError
    from sfumato.telemetry import Counts

    try:
        return Counts.load(file)
    except SketchFormatError as error:
        raise SketchFormatError(f"{file}: {error}") from None


def write_counts(path: Path, made: Any) -> None:
    """Write counts: in our format, or as google/rappor does where the name ends in .csv."""
    from sfumato.telemetry import write_counts_csv

    if is_csv(path):
        write_counts_csv(path, made)
    else:
        made.save(path)


def check_file(file: Path, what: str, *, pipes: bool = False) -> None:
    """Refuse missing files, folders and devices, and pipes unless they are allowed."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such file.")
    beginning(file, f"file of {what}", pipes=pipes)


def check_reports(file: Path, remedy: str = "") -> None:
    """Refuse what is not there, and parameters where reports belong."""
    check_file(file, "reports", pipes=True)
    if holds_parameters(file):
        raise ValueError(f"{file} holds parameters, not reports{remedy}.")


def is_csv(file: Path) -> bool:
    """Whether the name says that google/rappor's form is meant."""
    return file.name.lower().endswith(".csv")


def _begin(file: Path) -> bytes:
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        return opened.read(256)


def collected(command: str, files: list[Path], of: Any, advance: Any) -> Any:
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
                advance(len(total), None)
    for file, more in loose:
        total = total.without_ids()
        _merge(total, more, file)
    return _with_any(command, files, total)


def deduplicated(command: str, files: list[Path], of: Any, advance: Any) -> Any:
    """The reports of the files that `collected` would count, as they were sent."""
    from sfumato.telemetry import Reports
    from sfumato.telemetry.reports.reports import added
    from sfumato.telemetry.reports.validation import HashSet, counted_once

    for file in files:
        check_reports(file)
        if is_counts(file):
            raise ValueError(f"{file}: holds counts; the likelihood needs files of reports.")
    batches, known_hashes, rows = [_none(of)], HashSet(), 0
    for batch in _batches(files, of):
        keep, refused, known_hashes = counted_once(of, batch, known_hashes)
        one = batch.take(keep)
        columns = (one.cohorts, one.payload, one.ids)
        batches.append(Reports(of, *columns, added([batch.refused, refused])))
        rows += len(one)
        advance(rows, None)
    return _with_any(command, files, Reports.concat(batches))


def in_order(command: str, file: Path, of: Any) -> Any:
    """The reports of one file, line by line; one that is refused would part the pairs of lines."""
    from sfumato.telemetry import Reports

    check_reports(file)
    if is_counts(file):
        raise ValueError(f"{file}: holds counts; {command} needs files of reports.")
    reports = Reports.concat([_none(of), *_batches([file], of)])
    if reports.refused:
        reasons = ", ".join(f"{reason} {number}" for reason, number in reports.refused.items())
        raise ValueError(
            f"{file}: lines must pair, but some are no reports of these parameters: {reasons}. "
            "Leave those clients out of both files."
        )
    return reports


def candidates(
    command: str,
    file: Path | None,
    column: str | None,
    of: Any,
    notes: list[str],
    option: str = "--candidates",
    options: dict[str, Any] | None = None,
) -> Any:
    """The values to look for: of a file, of google/rappor's map, or all that the scheme has.

    What people should know of the file is added to the notes. options: of the command.
    """
    if file is None:
        if of.domain is None:
            raise ValueError(f"{command}: give {option}, a file of the values to look for.")
        return of.domain
    named, file, options = file, input_files.located(file), options or {}
    check_file(file, "candidates")
    if is_csv(file) and column is None:
        return _map(file, of, option)
    numbers = getattr(of, "edges", None) is not None
    given = input_files.text_format(options)
    found = values.listed(file, column, numbers=numbers, notes=notes, given=given)
    if column is not None:
        input_files.announce(named, {"candidates": column}, options)
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
    reasons = ", ".join(f"{reason} {number}" for reason, number in read.refused.items())
    remedy = "Give the parameters that the clients used."
    if set(read.refused) == {"unreadable"}:
        remedy = "Give files that telemetry encode wrote, or lines of that form."
    raise ValueError(
        f"{command}: no report fits the parameters {read.scheme.fingerprint}; refused: {reasons}. "
        + remedy
    )


def _merge(total: Any, more: Any, file: Path) -> None:
    try:
        total.merge(more)
    except (ValueError, TypeError) as error:
        error.add_note(f"({file})")
        raise

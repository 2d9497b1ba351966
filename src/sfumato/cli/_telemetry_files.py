"""Files of telemetry: parameters and counts, ours or google/rappor's, and how to tell them."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli._show import beginning

__all__ = [
    "Parameters",
    "check_file",
    "check_reports",
    "counts",
    "holds_counts",
    "holds_parameters",
    "is_counts",
    "is_csv",
    "reported",
    "scheme",
    "scheme_for",
    "write_counts",
    "write_scheme",
]

Parameters = Annotated[
    Path | None,
    typer.Option("--params", help="File of the parameters of the reports; counts hold their own."),
]
LARGEST = 1 << 26  # bytes of a file of parameters
MAGIC = b"SFUM"  # of all files of ours that are not text
PARAMETERS, COUNTS = b'"sfumato telemetry parameters"', b'{"kind": "telemetry counts"'


def holds_parameters(file: Path) -> bool:
    """Whether a file begins as parameters do; they may still be wrong."""
    begin = _begin(file).lstrip()
    return begin.startswith(b"{") and PARAMETERS in begin


def holds_counts(file: Path) -> bool:
    """Whether a file begins as counts do; it may still be damaged."""
    begin = _begin(file)
    return begin.startswith(MAGIC) and COUNTS in begin


def reported(file: Path) -> str | None:
    """The fingerprint in the first line of a file of reports, "" if cut off; None in others."""
    begin = _begin(file).lstrip()
    if not re.match(rb'\{\s*"v"\s*:', begin):
        return None
    named = re.search(rb'"params"\s*:\s*"([0-9a-f]{16})"', begin)
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
    from sfumato.telemetry._scheme import read_scheme

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
        return read_scheme(text)
    except UnicodeDecodeError:
        raise ValueError(f"{file}: is no file of parameters; telemetry params makes one.") from None
    except ValueError as error:
        if is_csv(file):  # which names the file and the line
            raise
        raise ValueError(f"{file}: {error}") from None


def write_scheme(path: Path, made: Any) -> None:
    """Write parameters: as JSON, or as google/rappor does where the name ends in .csv."""
    from sfumato.sketch._format import write_whole
    from sfumato.telemetry import write_params_csv

    if not is_csv(path):
        write_whole(path, made.to_json().encode() + b"\n")
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
        raise ValueError(f"{command}: give --params, the parameters that the clients had.")
    return counts(held[0]).scheme


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
    """Refuse what is not there, folders, devices, and pipes unless they are told to do."""
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

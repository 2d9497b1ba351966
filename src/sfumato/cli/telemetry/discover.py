"""`sfumato telemetry discover`: frequent strings of reports, without a list of candidates."""

import time
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Force, Json, Quiet, check_output
from sfumato.cli.telemetry import report_files

__all__ = ["discover"]

COMMAND = "telemetry discover"
TABLES = (".csv", ".parquet", ".json")


def discover(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Files of reports (lines of JSON, also .gz) of a discovery."
        ),
    ],
    params: Annotated[
        Path,
        typer.Option(
            help="File of parameters that the clients used: of telemetry params --scheme "
            "prefix-discovery."
        ),
    ],
    level: Annotated[
        float,
        typer.Option(
            help="Allowed fraction of false discoveries; intervals have confidence 1 - level."
        ),
    ] = 0.05,
    limit: Annotated[
        int, typer.Option(help="Maximum number of prefixes of one length to extend.")
    ] = 1000,
    top: Annotated[int, typer.Option("--top", "-n", help="Number of rows to show.", min=1)] = 20,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write the complete table: .csv, .parquet or .json."
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find frequent strings that nobody listed.

    It also estimates how many clients have each. First make parameters with `telemetry params
    --scheme prefix-discovery`, and reports of them with `telemetry encode`. What cannot be such
    a report is left out and counted by reason.
    """
    from sfumato.cli import printing
    from sfumato.telemetry import read_prefix_reports

    if output is not None:
        if output.suffix.lower() not in TABLES:
            raise ValueError(f"{COMMAND}: -o {output} must end in {', '.join(TABLES)}.")
        check_output(output, force, params, *files)
    discovery = report_files.discovery(params)
    for file in files:
        report_files.check_reports(file)
        if report_files.is_counts(file):
            raise ValueError(f"{file}: holds counts; {COMMAND} needs files of reports.")
    begin = time.perf_counter()
    with printing.progress("reading", "reports", hidden=quiet or json) as advance:
        reports = read_prefix_reports(files, discovery, advance=advance)
    if not len(reports):
        reasons = ", ".join(f"{why} {number}" for why, number in reports.refused.items())
        raise ValueError(
            f"{COMMAND}: no report fits the parameters {discovery.fingerprint}"
            + (f"; refused: {reasons}. " if reasons else ". ")
            + "Give the parameters that the clients used."
        )
    found = discovery.find(reports, level=level, limit=limit)
    seconds = round(time.perf_counter() - begin, 3)
    if output is not None:
        _write(output, found)
    if json:
        summary = {"refused": dict(reports.refused), "seconds": seconds}
        printing.document({**loads(found.to_json()), **summary}, json)
    else:
        _show(found, top, sum(reports.refused.values()), seconds)


def _write(path: Path, found: Any) -> None:
    """Write the complete table in the format of the file extension."""
    from sfumato.core.file_format import write_atomic
    from sfumato.data.files import write_table

    if path.suffix.lower() == ".json":
        write_atomic(path, found.to_json().encode() + b"\n")
    else:
        write_table(path, found.to_arrow())


def _show(found: Any, top: int, refused: int, seconds: float) -> None:
    """Print the most frequent strings, then the summary and the notes."""
    from sfumato.cli import printing

    columns = ("estimate", "std_error", "low", "high")
    rows = [
        {
            "value": value,
            **{name: f"{getattr(found, name)[at]:,.0f}" for name in columns},
            "p_value": f"{found.p_value[at]:.2g}",
        }
        for at, value in enumerate(found.value[:top])
    ]
    if rows:
        printing.rows(rows, False)
    summary = {"reports": found.reports, "candidates": found.candidates, "found": len(found)}
    printing.document({**summary, "refused": refused, "seconds": seconds}, False)
    for note in found.notes:
        print(note)

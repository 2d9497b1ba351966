"""`sfumato telemetry encode` and `aggregate`: values become reports, and reports become counts."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.options import Force, Json, Quiet, check_output, takes
from sfumato.cli.telemetry import report_files, values

__all__ = ["aggregate", "encode", "show_counts", "show_reports"]

COMMAND = "telemetry aggregate"
ONE = "one, whose secret was given"
MANY = "simulated: every value is of another client"
NO_IDS = "A CSV has no ids of reports: one that is given twice is counted twice."
MOST_BATCHES = 2**20  # of values in one run
WARNING = "Reports with a seed are not private: who knows it can take the noise away."


@takes(input_files.TEXT, before="force")
def encode(
    context: typer.Context,
    params: Annotated[Path, typer.Option(help="File of parameters.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write reports, a line each; .gz packs them."),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Files of values, one per line (also .gz), or tables with --column; else stdin.",
        ),
    ] = None,
    column: values.Column = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            help="File of the secret of one client: 16 random bytes or more, as they are."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed that makes the same reports again, for tests; not private."),
    ] = None,
    skip_nulls: values.SkipNulls = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make private reports of values.

    Only the reports leave this computer; values are not stored.

    Every line or row is reported, unless --skip-nulls leaves out empty ones. A missing or invalid
    value is reported as an empty text; with categories or edges, as none of their values.

    With --secret-file all values are those of one client, and equal values always get the same
    noise. Without it every value is that of another client, which is a simulation.
    """
    from sfumato.cli import printing
    from sfumato.telemetry import PrefixDiscovery, ReportEncoder, write_reports

    named = files or ["-"]
    inputs = [Path(each) for each in named if each != "-"]
    if report_files.is_csv(output):
        raise ValueError(f"{output}: reports are written as lines of JSON; name it .ndjson.")
    check_output(output, force, params, secret_file, *inputs)
    if secret_file is not None and seed is not None:
        raise ValueError("--secret-file and --seed exclude each other; a seed is for tests.")
    scheme, secret = report_files.parameters(params), _secret(secret_file)
    numbers = getattr(scheme, "edges", None) is not None
    empty: Counter[str] | None = Counter() if skip_nulls else None
    columns = values.batches(
        named,
        column,
        numbers=numbers,
        skip_nulls=skip_nulls,
        empty=empty,
        reported=True,
        given=input_files.text_format(context.params, private=True),
    )
    if column is not None:
        input_files.announce(", ".join(named), {"values": column}, context.params)
    begin = time.perf_counter()
    with printing.progress("encoding", "values", hidden=quiet or json) as advance:
        if isinstance(scheme, PrefixDiscovery):
            encoded = _prefixes(scheme, secret, seed)
        else:
            encoded = _whole(ReportEncoder(scheme, secret=secret, seed=seed))
        written = write_reports(output, _encoded(encoded, columns, advance))
    summary = {
        "file": str(output),
        "clients": MANY if secret_file is None else ONE,
        "reports": written,
        **({"empty_lines_left_out": empty.total()} if empty else {}),
        "fingerprint": scheme.fingerprint,
        "payload_bytes": getattr(scheme, "schemes", [scheme])[-1].payload_bytes,
        "file_bytes": output.stat().st_size,
        **({} if seed is None else {"warning": WARNING}),
        "seconds": round(time.perf_counter() - begin, 3),
    }
    printing.document(summary, json)


def aggregate(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files of reports (lines of JSON, also .gz) and of counts; also google/rappor's.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write counts; .csv: as google/rappor does."),
    ],
    params: report_files.Parameters = None,
    forget_ids: Annotated[
        bool,
        typer.Option(
            "--forget-ids",
            help="Write a smaller file, in which a re-sent report would count twice.",
        ),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Count reports, and merge counts.

    What cannot be a report is left out and counted by reason.
    """
    from sfumato.cli import printing

    check_output(output, force, params, *files)
    files = [engines.located(context, each) for each in files]
    begin = time.perf_counter()
    with printing.progress("counting", "reports", hidden=quiet or json) as advance:
        total = report_files.counted(COMMAND, context, files, params, advance)
    loose = any(map(report_files.is_csv, [*files, output]))  # a CSV has no column of ids
    if forget_ids or loose:
        total = total.without_ids()
    report_files.write_counts(output, total)
    seconds = round(time.perf_counter() - begin, 3)
    show_counts(total, output, json, seconds=seconds, **({"note": NO_IDS} if loose else {}))


def show_counts(counts: Any, file: Path, as_json: bool, **more: Any) -> None:
    """Describe counts, without the value of any cell."""
    from sfumato.cli import printing

    dispersion, refused = counts.dispersion(), sum(counts.refused.values())
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in counts.refused.items())
    summary = {
        "file": str(file),
        "kind": "telemetry counts",
        "scheme": counts.scheme.name,
        "metric": counts.scheme.metric,
        "fingerprint": counts.scheme.fingerprint,
        "cohorts": counts.scheme.cohorts,
        "cells": counts.scheme.cells,
        "accepted": len(counts),
        "refused": {"all": refused, **counts.refused}
        if as_json
        else (f"{refused:,}: {reasons}" if refused else "none"),
        "bytes_per_report": counts.bytes_per_report,
        "finds_duplicates": counts.keep_ids,
        "file_bytes": file.stat().st_size,
    }
    printing.document(
        {**summary, **({"dispersion": asdict(dispersion)} if as_json else {}), **more}, as_json
    )
    if not as_json:
        print(f"Dispersion: {dispersion}")


def show_reports(fingerprint: str, file: Path, as_json: bool) -> None:
    """Describe a file of reports by the parameters of the first."""
    from sfumato.cli import printing

    summary = {"file": str(file), "kind": "telemetry reports", "fingerprint": fingerprint or None}
    printing.document({**summary, "file_bytes": file.stat().st_size}, as_json)
    if not as_json:
        print("The fingerprint is that of the first report. telemetry aggregate counts them all.")


def _whole(encoder: Any) -> Callable[[Any], list[Any]]:
    return lambda column: [encoder.encode_many(column)]


def _prefixes(discovery: Any, secret: bytes | None, seed: int | None) -> Callable[[Any], Any]:
    """The reports of every group; a seed makes other noise in each batch."""
    import numpy as np

    batches = count()

    def encoded(column: Any) -> Any:
        secrets, batch = None, next(batches)
        if secret is not None:
            secrets = np.tile(np.frombuffer(secret, np.uint8), (len(column), 1))
        own = None if seed is None else seed * MOST_BATCHES + batch
        return discovery.encode_many(column, secrets=secrets, seed=own).groups

    return encoded


def _encoded(
    encode: Callable[[Any], Any], columns: Iterator[tuple[str, int, Any]], advance: Any
) -> Iterator[Any]:
    done = 0
    for _, _, column in columns:
        yield from encode(column)
        done += len(column)
        advance(done, None)
    if not done:
        raise ValueError("telemetry encode: the input holds no value; give one per line.")


def _secret(file: Path | None) -> bytes | None:
    if file is None:
        return None
    if not file.is_file():  # a device would give another secret each time, without an end
        raise FileNotFoundError(
            f"{file}: there is no file of a secret; 32 bytes of /dev/urandom make one."
        )
    return file.read_bytes()

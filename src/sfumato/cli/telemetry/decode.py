"""`sfumato telemetry decode`: a table of how often each candidate was reported, with its error.

`sfumato telemetry associate`: how two variables go together that the same clients reported.
"""

import math
import time
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.options import Force, Json, Quiet, check_output, takes
from sfumato.cli.telemetry import report_files, values
from sfumato.data.files import write_table

__all__ = ["associate", "decode"]

COMMAND = "telemetry decode"
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Where to write the complete table: .csv, .parquet or .json."
    ),
]
TABLES = (".csv", ".parquet", ".json")
NUMBERS = ("estimate", "std_error", "bound", "low", "high")


@takes(input_files.TEXT, before="method")
def decode(
    context: typer.Context,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="A file of counts, or files of reports.")
    ],
    candidates: Annotated[
        Path | None,
        typer.Option(
            help="Candidate values: a file with one per line, a table with --column, or "
            "google/rappor's map (.csv); default: the categories."
        ),
    ] = None,
    params: report_files.Parameters = None,
    column: values.Column = None,
    method: Annotated[str, typer.Option(help="weighted, lasso, or likelihood (reports only).")] = (
        "weighted"
    ),
    level: Annotated[
        float,
        typer.Option(
            help="Allowed fraction of false discoveries; intervals have confidence 1 - level."
        ),
    ] = 0.05,
    correction: Annotated[
        str,
        typer.Option(help="For many candidates: benjamini-hochberg, bonferroni or none."),
    ] = "benjamini-hochberg",
    other: Annotated[
        bool,
        typer.Option(
            "--other/--no-other", help="Whether clients may have values outside the candidates."
        ),
    ] = True,
    top: Annotated[
        int, typer.Option("--top", "-n", help="Number of rows to show and draw.", min=1)
    ] = 20,
    output: Output = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where to write a bar plot with intervals: .png, .svg or .pdf."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Estimate how many clients have each value.

    Each candidate has an interval and a p-value.
    """
    from sfumato.cli import printing
    from sfumato.telemetry import decode as decoding

    _check(COMMAND, output, plot, force, *data, candidates)
    data = [engines.located(context, each) for each in data]
    scheme = report_files.scheme_of(COMMAND, context, data, params)
    notes: list[str] = []
    looked = report_files.candidates(
        COMMAND, candidates, column, scheme, notes, options=context.params
    )
    with printing.progress("reading", "reports", hidden=quiet or json) as advance:
        if method == "likelihood" and not engines.on_spark(context):
            read = report_files.deduplicated(COMMAND, data, scheme, advance)
        else:
            read = report_files.counted(COMMAND, context, data, params, advance)
    begin = time.perf_counter()
    found = decoding(read, looked, method=method, level=level, correction=correction, other=other)
    seconds = round(time.perf_counter() - begin, 3)
    _written(found, output, plot, top, level)
    if json:
        table = loads(found.to_json())
        table["notes"] += notes
        printing.document({**table, "refused": dict(read.refused), "seconds": seconds}, json)
    else:
        _shown(found, top, {"refused": sum(read.refused.values()), "seconds": seconds})
        print("".join(f"{note}\n" for note in notes), end="")


def _written(found: Any, output: Path | None, plot: Path | None, top: int, level: float) -> None:
    from sfumato.cli.telemetry.figure import figure
    from sfumato.core.file_format import write_atomic

    if output is not None:
        _write(output, found)
    if plot is not None:
        write_atomic(plot, figure(found, top, level, plot))


def _shown(found: Any, top: int, summary: dict[str, Any]) -> None:
    """The likeliest candidates as a table, then what no candidate explains, and the notes."""
    import numpy as np

    from sfumato.cli import printing

    first = np.argsort(-found.estimate, kind="stable")[:top].tolist()
    printing.rows([{"value": str(found.value[i]), **_row(found, i)} for i in first], False)
    printing.document({**_summary(found), **summary}, False)
    for note in found.notes:
        print(note)


def _summary(found: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "reports": found.reports,
        "candidates": len(found),
        "found": int(found.detected.sum()),
    }
    if found.other > 0 or found.other_std_error > 0:
        summary["no candidate"] = f"{found.other:,.0f}, standard error {found.other_std_error:,.0f}"
    summary["rank"] = found.rank
    return summary if math.isnan(found.dispersion) else {**summary, "dispersion": found.dispersion}


ASSOCIATE_COMMAND = "telemetry associate"


@takes(input_files.TEXT, before="level")
def associate(
    context: typer.Context,
    first: Annotated[Path, typer.Argument(help="File of reports of one variable.")],
    second: Annotated[
        Path, typer.Argument(help="File of reports of the other, of the same clients in order.")
    ],
    params_first: Annotated[Path, typer.Option(help="File of the parameters of the first.")],
    params_second: Annotated[Path, typer.Option(help="File of the parameters of the second.")],
    candidates_first: Annotated[
        Path | None,
        typer.Option(
            help="Candidate values of the first variable, one per line; default: its categories."
        ),
    ] = None,
    candidates_second: Annotated[
        Path | None,
        typer.Option(
            help="Candidate values of the second variable, one per line; default: its categories."
        ),
    ] = None,
    level: Annotated[
        float,
        typer.Option(
            help="Allowed fraction of false discoveries; intervals have confidence 1 - level."
        ),
    ] = 0.05,
    other: Annotated[
        bool,
        typer.Option(
            "--other/--no-other", help="Whether clients may have values outside the candidates."
        ),
    ] = True,
    top: Annotated[int, typer.Option("--top", "-n", help="Number of rows to show.", min=1)] = 20,
    output: Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Estimate how many clients have each pair of values.

    Row r of both files must be the same client: encode two columns of one table, with no row
    left out. Two reports of one client cost it the sum of both epsilons.
    """
    from sfumato.cli import printing
    from sfumato.telemetry import associate as associating
    from sfumato.telemetry import pair_statement

    _check(ASSOCIATE_COMMAND, output, None, force, first, second)
    schemes = [report_files.scheme(file) for file in (params_first, params_second)]
    sent = [
        report_files.in_order(ASSOCIATE_COMMAND, file, scheme)
        for file, scheme in zip((first, second), schemes, strict=True)
    ]
    notes: list[str] = []
    looked = [
        report_files.candidates(
            ASSOCIATE_COMMAND, file, None, scheme, notes, f"--candidates-{side}", context.params
        )
        for file, scheme, side in zip(
            (candidates_first, candidates_second), schemes, ("first", "second"), strict=True
        )
    ]
    found = associating(*sent, *looked, level=level, other=other)
    if output is not None:
        _write(output, found)
    if json:
        document = loads(found.to_json())
        printing.document({**document, "notes": [*document["notes"], *notes]}, json)
    else:
        _show_association(found, top, notes)
    printing.promise(pair_statement(*schemes), json)


def _show_association(found: Any, top: int, notes: list[str]) -> None:
    """The likeliest pairs, and whether the variables are related at all."""
    import numpy as np

    from sfumato.cli import printing

    order = np.argsort(-found.estimate, kind="stable")[:top].tolist()
    names = [[_name(found[side][at]) for side in ("value_first", "value_second")] for at in order]
    printing.rows(
        [
            {"first": one, "second": two, **_row(found, at)}
            for (one, two), at in zip(names, order, strict=True)
        ],
        False,
    )
    summary = {
        "clients": found.reports,
        "p_value_if_unrelated": found.independence.p_value,
        "cramers_v": found.cramers_v,
        "mutual_information_in_bits": found.mutual_information,
    }
    printing.document(summary, False)
    for note in (*found.notes, *notes):
        print(note)


def _name(value: Any) -> str:
    return "no candidate" if value is None else str(value)


def _check(
    command: str, output: Path | None, plot: Path | None, force: bool, *inputs: Path | None
) -> None:
    """Refuse before the work what could not be written after it."""
    from sfumato.cli.telemetry.figure import KINDS

    for option, path, endings in (("-o", output, TABLES), ("--plot", plot, KINDS)):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise ValueError(f"{command}: {option} {path} must end in {', '.join(endings)}.")
        check_output(path, force, *inputs)


def _write(path: Path, found: Any) -> None:
    """Write the complete table in the format of the file extension."""
    from sfumato.core.file_format import write_atomic

    if path.suffix.lower() == ".json":
        write_atomic(path, found.to_json().encode() + b"\n")
    else:
        write_table(path, found.to_arrow())


def _row(found: Any, at: int) -> dict[str, Any]:
    """The numbers of one row for the screen: counts as integers, and yes if it was found."""
    held = [name for name in NUMBERS if hasattr(found, name)]  # a joint table has no bound
    numbers = {name: float(found[name][at]) for name in held}
    shown: dict[str, Any] = {
        name: f"{number:,.0f}" if math.isfinite(number) else "-" for name, number in numbers.items()
    }
    shown["p_value"] = f"{float(found['p_value'][at]):.2g}"
    shown["found"] = "yes" if found["detected"][at] else ""
    return shown

"""`sfumato telemetry`: what many people have in common, from locally private reports."""

from pathlib import Path

import typer

from sfumato.cli.telemetry import decode as telemetry_associate
from sfumato.cli.telemetry import decode as telemetry_decode
from sfumato.cli.telemetry import discover as telemetry_discover
from sfumato.cli.telemetry import params as telemetry_params
from sfumato.cli.telemetry import params as telemetry_plan
from sfumato.cli.telemetry import report_files
from sfumato.cli.telemetry import reports as telemetry_reports

__all__ = ["app", "show"]

app: typer.Typer = typer.Typer(
    help="Estimate clients' values from locally private reports.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.command()(telemetry_params.params)
app.command()(telemetry_reports.encode)
app.command()(telemetry_reports.aggregate)
app.command()(telemetry_decode.decode)
app.command()(telemetry_associate.associate)
app.command()(telemetry_discover.discover)
app.command()(telemetry_plan.plan)


def show(content: str, file: Path, json: bool) -> None:
    """Describe the parameters, counts or reports in a file."""
    from sfumato.cli import printing

    if content == "parameters":
        scheme = report_files.parameters(file)
        printing.document(telemetry_params.described(scheme, file, json), json)
        telemetry_params.promise(scheme, json)
    elif content == "counts":
        telemetry_reports.show_counts(report_files.counts(file), file, json)
    else:
        telemetry_reports.show_reports(report_files.reported(file) or "", file, json)

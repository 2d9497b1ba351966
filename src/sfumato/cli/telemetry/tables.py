"""Tables that telemetry commands show and write: whole files, one row for the screen."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import check_output
from sfumato.data.files import write_table

__all__ = ["Output", "check", "row", "write"]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write the whole table: .csv, .parquet or .json."),
]
TABLES = (".csv", ".parquet", ".json")
NUMBERS = ("estimate", "std_error", "bound", "low", "high")


def check(
    command: str, output: Path | None, plot: Path | None, force: bool, *inputs: Path | None
) -> None:
    """Refuse before the work what could not be written after it."""
    from sfumato.cli.telemetry.figure import KINDS

    for place, endings in ((output, TABLES), (plot, KINDS)):
        if place is None:
            continue
        if place.suffix.lower() not in endings:
            raise ValueError(f"{command}: {place} must end in {', '.join(endings)}.")
        check_output(place, force, *inputs)


def write(path: Path, found: Any) -> None:
    """Write the whole table, in the form that the ending of the name asks for."""
    from sfumato.core.file_format import write_whole

    if path.suffix.lower() == ".json":
        write_whole(path, found.to_json().encode() + b"\n")
    else:
        write_table(path, found.to_arrow())


def row(found: Any, at: int) -> dict[str, Any]:
    """The numbers of one row for the screen: whole reports, and yes where it was found."""
    held = [name for name in NUMBERS if hasattr(found, name)]  # a joint table has no bound
    numbers = {name: float(found[name][at]) for name in held}
    shown: dict[str, Any] = {
        name: f"{number:,.0f}" if math.isfinite(number) else "-" for name, number in numbers.items()
    }
    shown["p_value"] = f"{float(found['p_value'][at]):.2g}"
    shown["found"] = "yes" if found["detected"][at] else ""
    return shown

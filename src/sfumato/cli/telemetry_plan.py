"""`sfumato telemetry plan`: which scheme sees most at this epsilon, and what will be visible."""

import math
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _telemetry_files, _telemetry_values, telemetry_params
from sfumato.cli._options import Force, Json, check_output

__all__ = ["plan"]

COMMAND = "telemetry plan"


def plan(
    reports: Annotated[int, typer.Option(help="How many reports are expected.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of all reports of one value together.")],
    dictionary: Annotated[
        int | None, typer.Option(help="How many values will be looked for.")
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="Say that no other values can occur.")
    ] = False,
    categories: Annotated[
        Path | None,
        typer.Option(help="File of all values, one a line, instead of --dictionary --known."),
    ] = None,
    column: _telemetry_values.Column = None,
    longitudinal: Annotated[
        bool,
        typer.Option("--longitudinal", help="Later reports of one client must not be alike."),
    ] = False,
    level: Annotated[
        float, typer.Option(help="Chance allowed of finding any value that is not there.")
    ] = 0.05,
    metric: Annotated[str, typer.Option(help="Name of what is reported.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the recommended parameters."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare schemes at one epsilon: the least count that will be seen, and the bytes it takes."""
    from sfumato.cli import _show
    from sfumato.telemetry import plan as planning

    if output is not None:
        check_output(output, force, categories)
    named = _named(dictionary, categories, column)
    found = planning(
        reports,
        epsilon,
        dictionary or len(named or []),
        known=known or named is not None,
        longitudinal=longitudinal,
        level=level,
    )
    if output is not None:
        scheme = _settled(found.recommended, named, metric)
        _telemetry_files.write_scheme(output, scheme)
    if json:
        _show.document({**loads(found.to_json()), **_file(output)}, json)
        if output is not None:
            telemetry_params.promise(scheme, json)
        return
    _show.rows([_row(row, reports) for row in found.rows], json)
    print(f"Recommended: {found.recommended.name}. {found.why}")
    if output is not None:
        _show.document(telemetry_params.told(scheme, output, json), json)
        telemetry_params.promise(scheme, json)


def _named(dictionary: int | None, file: Path | None, column: str | None) -> list[str] | None:
    """The values of a file, where one was given in place of their number."""
    if (dictionary is None) == (file is None):
        raise ValueError(f"{COMMAND}: give either --dictionary, a number, or --categories, a file.")
    if file is None:
        if column is not None:
            raise ValueError(f"{COMMAND}: --column goes with --categories.")
        return None
    return _telemetry_values.listed(file, column)


def _settled(row: Any, named: list[str] | None, metric: str) -> Any:
    """The recommended scheme for these values, which the plan knows by their number only."""
    if row.scheme.domain is None:
        return replace(row.scheme, metric=metric)
    if named is None:
        raise ValueError(
            f"{COMMAND}: {row.name} has a cell for every value; give --categories, their names, "
            "in place of --dictionary."
        )
    return replace(row.scheme, categories=tuple(named), metric=metric)


def _file(output: Path | None) -> dict[str, str]:
    return {} if output is None else {"file": str(output)}


def _row(row: Any, reports: int) -> dict[str, Any]:
    """One scheme: from how many reports on a value is seen in half and in nine of ten cases."""
    blind = math.isinf(row.std_error)
    seen = {
        name: "nothing" if share >= 1 else f"{share * reports:,.0f} ({share:.3%})"
        for name, share in (("seen half", row.visible), ("seen surely", row.surely_visible))
    }
    return {
        "scheme": row.name,
        "std_error": "too few counts" if blind else f"{row.std_error:,.0f}",
        **seen,
        "bytes": row.bytes_per_report,
        "cohorts": row.scheme.cohorts,
        "cells": row.scheme.cells,
    }

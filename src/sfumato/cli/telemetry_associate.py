"""`sfumato telemetry associate`: how two variables go together that the same clients reported."""

from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _telemetry_files, _telemetry_reading, _telemetry_tables
from sfumato.cli._options import Force, Json

__all__ = ["associate"]

COMMAND = "telemetry associate"


def associate(
    first: Annotated[Path, typer.Argument(help="File of reports of one variable.")],
    second: Annotated[
        Path, typer.Argument(help="File of reports of the other, of the same clients in order.")
    ],
    params_first: Annotated[Path, typer.Option(help="File of the parameters of the first.")],
    params_second: Annotated[Path, typer.Option(help="File of the parameters of the second.")],
    candidates_first: Annotated[
        Path | None,
        typer.Option(help="Values to look for in the first, one a line; unless told, categories."),
    ] = None,
    candidates_second: Annotated[
        Path | None,
        typer.Option(help="Values to look for in the second, one a line; unless told, categories."),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Share of false finds allowed; intervals are of 1 - level.")
    ] = 0.05,
    other: Annotated[
        bool,
        typer.Option(
            "--other/--no-other", help="Whether clients may have values that are no candidate."
        ),
    ] = True,
    top: Annotated[int, typer.Option("--top", "-n", help="How many rows are shown.", min=1)] = 20,
    output: _telemetry_tables.Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Estimate how many clients have each pair of values. Line r of both files is one client.

    So both files must hold a client a row: encode two columns of one table, with no row left out.
    Two reports of one client cost it the sum of both epsilons.
    """
    from sfumato.cli import _show
    from sfumato.telemetry import associate as associating
    from sfumato.telemetry import pair_statement

    _telemetry_tables.check(COMMAND, output, None, force, first, second)
    schemes = [_telemetry_files.scheme(file) for file in (params_first, params_second)]
    sent = [
        _telemetry_reading.in_order(COMMAND, file, scheme)
        for file, scheme in zip((first, second), schemes, strict=True)
    ]
    notes: list[str] = []
    looked = [
        _telemetry_reading.candidates(COMMAND, file, None, scheme, notes, f"--candidates-{side}")
        for file, scheme, side in zip(
            (candidates_first, candidates_second), schemes, ("first", "second"), strict=True
        )
    ]
    found = associating(*sent, *looked, level=level, other=other)
    if output is not None:
        _telemetry_tables.write(output, found)
    if json:
        document = loads(found.to_json())
        _show.document({**document, "notes": [*document["notes"], *notes]}, json)
    else:
        _shown(found, top, notes)
    _show.promise(pair_statement(*schemes), json)


def _shown(found: Any, top: int, notes: list[str]) -> None:
    """The likeliest pairs, and whether the variables are related at all."""
    import numpy as np

    from sfumato.cli import _show

    order = np.argsort(-found.estimate, kind="stable")[:top].tolist()
    names = [[_name(found[side][at]) for side in ("value_first", "value_second")] for at in order]
    _show.rows(
        [
            {"first": one, "second": two, **_telemetry_tables.row(found, at)}
            for (one, two), at in zip(names, order, strict=True)
        ],
        False,
    )
    told = {
        "clients": found.reports,
        "p_value_if_unrelated": found.independence.p_value,
        "cramers_v": found.cramers_v,
        "mutual_information_in_bits": found.mutual_information,
    }
    _show.document(told, False)
    for note in (*found.notes, *notes):
        print(note)


def _name(value: Any) -> str:
    return "no candidate" if value is None else str(value)

"""`sfumato bench`: speed of every room beside installed peers, and since the last run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Json, Quiet

__all__ = ["bench"]

WIDTH = 80  # columns, however wide the terminal is


def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROOM/CASE", help="Only this case, or all of a room; repeatable."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="Runs of each call, in turn.", show_default="5; quick 3"
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer items: under a minute.")] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of bench.json and bench.html.")
    ] = Path("bench"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed beside installed peers and the last run.

    One process, one thread, CPU time, warm. All calls of a case take turns. bench.json and
    bench.html are written after every case, so a run that is stopped leaves what it measured. A
    ratio is ours over theirs. It counts as changed if it left the spread of the last run.
    """
    from sfumato.cli import printing
    from sfumato.cli.bench import suite
    from sfumato.cli.bench.measuring import measure

    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"{output}: is a file; name a folder for the reports.")
    with suite.one_thread():
        wanted, turns = suite.chosen(only), runs or (3 if quick else 5)
        with printing.progress("sfumato bench", "cases", hidden=quiet) as advance:
            rows = suite.run(
                wanted,
                output,
                lambda case: measure(case, case.quick if quick else case.full, turns),
                advance,
            )
    if json:
        printing.document({"rows": rows}, json)
    else:
        _print(rows, output)


def _print(rows: list[dict[str, Any]], folder: Path) -> None:
    """One line for each pair of ours and another, in 80 columns."""
    from rich.console import Console
    from rich.table import Table

    from sfumato.cli.bench import comparison, page, suite

    table = Table(box=None, pad_edge=False)
    for name in ("case", "a second", "beside", "ratio", "spread", "since"):
        table.add_column(name, justify="left" if name in ("case", "beside") else "right")
    for row in rows:
        name, rate = row["case"], page.short(row["ours"]["rate"]["median"])
        for each in comparison.references(row):
            table.add_row(name, rate, each["name"], *page.figures(each))
            name = rate = ""
        if name:
            table.add_row(name, rate, "-", "", "", "")
    console = Console(width=WIDTH, highlight=False)
    console.print(table)
    missing = [
        f"{each['name']} ({row['case']}): {each['missing']}"
        for row in rows
        for each in row["peers"]
        if "missing" in each
    ]
    if missing:
        console.print("\nNot measured: " + "; ".join(missing) + ".")
    moved = len(comparison.marked(rows))
    compared = len(comparison.changes(rows))
    since = f"{moved} of {compared} ratios left the spread of the last run. " if compared else ""
    console.print(
        "\nSee: ratios above 1 are how many times faster we are, below 1 slower."
        f"\n{since}All figures: {folder / suite.HTML}."
    )

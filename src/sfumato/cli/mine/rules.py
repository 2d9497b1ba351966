"""`sfumato mine rules`: which items make which others likely, from baskets or a private release."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines
from sfumato.cli.mine import files
from sfumato.cli.options import Force, Json, Quiet, takes

__all__ = ["rules"]

# Written out, so that --help need not load the room; a test compares them.
METRICS = "confidence, support, interest, lift, leverage, conviction"
NOTHING = "no rules; lower --min-support or --min."
COLUMNS = ("antecedent", "consequent", "support", "confidence", "interest", "sign", "lift")


@takes(files.READING, before="min_support")
def rules(
    context: typer.Context,
    baskets: Annotated[
        Path,
        typer.Argument(
            help="Baskets, as in mine itemsets, or a release that it wrote; - is stdin."
        ),
    ],
    min_support: files.MinSupport = None,
    metric: Annotated[str, typer.Option(help=f"One of {METRICS}.")] = "confidence",
    least: Annotated[float, typer.Option("--min", help="Smallest value of the metric.")] = 0.5,
    consequents: Annotated[
        str, typer.Option(help="Items on the right side: single or several.")
    ] = "single",
    top: files.Top = None,
    method: files.Method = "auto",
    max_size: files.MaxSize = None,
    memory_limit: files.MemoryLimit = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw support against confidence, lift as colour: .png, .svg or .pdf."),
    ] = None,
    output: files.Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List association rules of baskets or of a release."""
    from sfumato.cli import printing
    from sfumato.core.file_format import write_atomic
    from sfumato.mine.itemsets import association_rules

    files.check_outputs(output, figure, force, baskets)
    begin = time.perf_counter()
    located = engines.located(context, baskets)
    found, statement = _itemsets(located, context, hidden=quiet or json)
    made = association_rules(found, metric, min=least, top=top, consequents=consequents)
    table, seconds = made.to_arrow(), round(time.perf_counter() - begin, 3)
    if figure is not None:
        write_atomic(figure, made.figure(figure.suffix[1:].lower()))
    if output is None:
        files.print_rows(table, json, top, COLUMNS, NOTHING)
    else:
        files.write(output, table)
        about = {"file": str(output), "rules": len(made), "itemsets": len(found)}
        printing.document({**about, "metric": metric, "min": least, "seconds": seconds}, json)
    if statement is not None:
        printing.promise(statement, json)


def _itemsets(file: Path, context: typer.Context, *, hidden: bool) -> tuple[Any, Any]:
    """The itemsets of a file of baskets, or of a release with its statement."""
    from sfumato.data.files import beginning

    if engines.on_spark(context) or not beginning(file).startswith(b"SFUM"):
        return files.mined(file, context, hidden=hidden)[0], None
    from sfumato.core.storage import load_any

    release = load_any(file)
    if type(release).__name__ != "ReleasedItemsets":
        kind = type(release).__name__
        raise ValueError(f"{file}: holds a {kind}, not itemsets; mine itemsets writes those.")
    if context.params["min_support"] is not None:
        raise ValueError("--min-support goes with baskets; a release has its itemsets already.")
    return release.itemsets(), release.statement

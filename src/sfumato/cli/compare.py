"""`sfumato compare`: a leaderboard of models on one file, with intervals and paired tests."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import input_files, model_options
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["compare"]


@takes(input_files.FEATURES, before="output")
@takes(model_options.SEED | input_files.COLUMNS, before="output")
def compare(
    context: typer.Context,
    ratings: Annotated[Path, typer.Argument(help="A file of ratings: user, item, rating, time.")],
    models: Annotated[str, typer.Option(help="Names of models, separated by commas.")],
    objective: Annotated[str, typer.Option(help="ranking (lists) or ratings.")] = "ranking",
    split: Annotated[
        str, typer.Option(help="Test part: row, user (of each), time (latest) or last (of each).")
    ] = "row",
    test_size: Annotated[float, typer.Option(help="Fraction of the rows in the test part.")] = 0.2,
    repeats: Annotated[int, typer.Option(help="Number of random splits.")] = 1,
    metrics: Annotated[
        str, typer.Option(help="Such as ndcg@10,recall@20 or rmse,mae; the first ranks.")
    ] = "",
    relevant_from: Annotated[
        float | None, typer.Option(help="Smallest rating that makes a test item relevant.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write an HTML page.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare models on the same splits, beside the trivial baseline.

    Models have their defaults. Intervals and paired tests are over users. Ctrl-C prints what is
    complete.
    """
    from sfumato.cli import printing
    from sfumato.recommend.comparison import EvaluationProtocol
    from sfumato.recommend.comparison import compare as compared
    from sfumato.recommend.comparison.page import headline, tables
    from sfumato.recommend.comparison.runner import named_models

    if output is not None:
        check_output(output, force, ratings)
    made = named_models(_names(models), objective)
    known = input_files.features("compare", [type(each) for each in made.values()], context.params)
    protocol = EvaluationProtocol(
        objective=objective,
        split=split,
        test_size=test_size,
        repeats=repeats,
        random_state=context.params["seed"] or 0,
        metrics=tuple(_names(metrics)),
        relevant_from=relevant_from,
        confidence=confidence,
    )
    data = input_files.read(ratings, input_files.columns(context.params), context.params)
    with printing.progress("comparing", "fits", hidden=quiet or json) as advance:
        found = compared(made, data, protocol, progress=advance, **known)
    if output is not None:
        found.save_html(output)
    if json:
        printing.document({**found.to_dict(), **input_files.reported(data)}, json)
    else:
        print(headline(found))
        for columns in tables(found):
            cells = zip(*columns.values(), strict=True)
            printing.rows([dict(zip(columns, row, strict=True)) for row in cells], json)
    for name, sentence in found.failed.items():
        print(f"sfumato: {name} failed: {sentence}", file=sys.stderr)
    if found.stopped:
        print("sfumato: stopped; this is what was complete.", file=sys.stderr)
    if found.stopped or found.failed:
        raise SystemExit(130 if found.stopped else 2)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]

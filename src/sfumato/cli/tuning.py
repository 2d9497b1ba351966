"""`sfumato tune`: learning rate and regularization by the error on ratings held out."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _ratings
from sfumato.cli._options import Force, Json, Quiet, check_output

__all__ = ["tune"]


def tune(
    context: typer.Context,
    ratings: Annotated[Path, typer.Argument(help="A file of ratings to learn from.")],
    valid: Annotated[
        Path | None, typer.Option(help="Ratings to choose by; a tenth of the others unless told.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the best model.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Trials done; a search that was stopped goes on from it.")
    ] = None,
    dense: Annotated[bool, typer.Option("--dense", help="Own vectors for all; no sketch.")] = False,
    factors: Annotated[int | None, typer.Option(help="Numbers a user or item has.")] = None,
    depth: Annotated[int | None, typer.Option(help="Rows of the sketch; 1: hashing.")] = None,
    gain: Annotated[float | None, typer.Option(help="How much smaller than dense.")] = None,
    cells: Annotated[int | None, typer.Option(help="Cells of the sketch, instead of gain.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the ratings.")] = None,
    clip: Annotated[float | None, typer.Option(help="Skip ratings of a larger loss.")] = None,
    threads: Annotated[int | None, typer.Option(help="At once, on one table.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all that is random; 0 unless told.")] = None,
    user_column: _ratings.User = None,
    item_column: _ratings.Item = None,
    rating_column: _ratings.Rating = None,
    time_column: _ratings.Time = None,
    delimiter: _ratings.Delimiter = None,
    skip_bad: _ratings.Skip = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Search learning rate and regularization in two stages, coarse and fine, each on a log scale.

    Ctrl-C keeps the log. A private model is not tuned: that would cost, uncharged.
    """
    from sfumato.cli import _fitting, _show
    from sfumato.recommend.tune import tune as search

    if output is not None:
        check_output(output, force, ratings, valid, log)
    given = _ratings.columns(context.params)
    model = _fitting.make("tune", {**context.params, "valid": None})
    train, held = _parts(_ratings.read(ratings, given), valid, given)
    with _fitting.bar("tuning", hidden=quiet or json) as tell:
        try:
            found = search(
                model,
                train,
                held,
                log=log,
                progress=tell and (lambda done, total, trial: tell(done, total, trial.rmse)),
                refit=output is not None,
            )
        except KeyboardInterrupt:
            if log is None or not log.exists():
                raise
            kept = f"{log} keeps the trials done; the same command goes on from it"
            print(f"sfumato: stopped; {kept}.", file=sys.stderr)
            raise SystemExit(130) from None
    if output is not None:
        found.model.save(output)
    told: dict[str, Any] = {
        "best": found.parameters,
        "valid_rmse": found.rmse,
        "trials": len(found.trials),
        "model": None if output is None else str(output),
        **_ratings.reported(train, held),
    }
    _show.document(told, json)


def _parts(ratings: Any, valid: Path | None, given: dict[str, Any]) -> tuple[Any, Any]:
    if valid is not None:
        return ratings, _ratings.read(valid, given)
    train, held = ratings.split(0.9, 0.1, seed=0)
    return train, held

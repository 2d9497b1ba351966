"""`sfumato fit`, `evaluate` and `recommend`: a model from a file of interactions, and its answers.

`sfumato tune`: parameters by rows held out. `sfumato models`: what can be fitted.
"""

import sys
import time
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files, model_options, model_runs
from sfumato.cli.bounds import ColumnBounds, rating_bounds
from sfumato.cli.options import (
    Force,
    Json,
    Quiet,
    check_output,
    given_options,
    refuse_options,
    takes,
)

__all__ = ["evaluate", "fit", "models", "recommend", "show", "tune"]

Ratings = Annotated[
    Path, typer.Argument(help="A file of user, item and, if there are any, rating and time.")
]
# Options of recommend for one user.
ALONE = (
    *("user", "exclude", "likes", "titles", "title_column", "title_id_column"),
    *("rating_column", "time_column", "no_ratings", "skip_bad", *input_files.TEXT),
)
Model = Annotated[Path, typer.Argument(help="A file that fit wrote.")]


@takes(model_options.LEARNED | input_files.FEATURES, before="valid")
@takes(model_options.SEED | input_files.COLUMNS, before="report")
def fit(
    context: typer.Context,
    ratings: Ratings,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    valid: Annotated[Path | None, typer.Option(help="Validation rows, to watch the error.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Fit a differentially private model.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta beside --epsilon, such as 1e-6.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="What is protected: event or user.")] = None,
    covers: Annotated[
        str | None,
        typer.Option(
            help="What is private: file, or joint (a user's own ratings serve that user)."
        ),
    ] = None,
    per_user: Annotated[
        int | None, typer.Option(help="Maximum number of ratings of a user, with --unit user.")
    ] = None,
    bounds: ColumnBounds = None,
    catalogue: Annotated[
        Path | None, typer.Option(help="Ids of candidate items, one per line; public.")
    ] = None,
    accounts: Annotated[
        Path | None, typer.Option(help="Ids of users, one per line; public. With --epsilon.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="File of the ledger that is charged.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the data set in the ledger.")] = None,
    release_id: Annotated[
        str | None,
        typer.Option(help="Name of the release; the same name again returns the stored bytes."),
    ] = None,
    report: input_files.Report = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="With --engine spark: a file from which training goes on if it failed."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Fit a recommender, for lists or for ratings.

    Without --model lists are learned by linear-items. Ratings are learned by sketch, which is also
    chosen by options that only factor models have.

    With --epsilon the model is differentially private (a model of ratings if --bounds are given).
    Then no row stops the command or is reported. Rows that cannot be read, or are in no public
    list, are left out, and ratings are clipped to the bounds. Line 1 is assumed to be public,
    unless --header or --no-header and --delimiter are given.

    Ctrl-C keeps the last complete epoch.
    """
    from sfumato.cli import model_options

    check_output(output, force, ratings, valid, catalogue, accounts)
    input_files.check_report(report, output, force, ratings, catalogue, accounts)
    options, private = context.params, epsilon is not None
    given = input_files.private(options) if private else input_files.columns(options)
    options["bounds"] = limits = rating_bounds(bounds, ratings, given)
    model, public = model_options.make("fit", options), input_files.public(options)
    if checkpoint is not None and (private or not engines.on_spark(context)):
        raise ValueError("fit: --checkpoint goes with --engine spark and a model without epsilon.")
    public |= input_files.features("fit", [type(model)], options)
    watched = None if valid is None else input_files.read(valid, given, options)
    if engines.on_spark(context):
        _fit_on_spark(context, model, public, watched)
        return
    train = input_files.read(ratings, given, options)
    if not private:
        model_runs.check_preferences(train, options.get("relevant_from"))
    begin, stopped = time.perf_counter(), None
    more: dict[str, Any]
    if private:
        input_files.curators_report(report, train, public, limits)
        more = {"stored": model_runs.release(model, train, public, options)}
    else:
        rows = "ratings" if train.has_ratings else "interactions"
        more = {rows: len(train), **input_files.reported(train, watched)}
        stopped = model_runs.run(model, train, watched, public, hidden=quiet or json)
        more |= model_runs.validated(model, train, watched)
    _save(model, options, {**more, "seconds": round(time.perf_counter() - begin, 3)})
    if stopped is not None:
        print(f"sfumato: stopped; {output} holds {stopped}.", file=sys.stderr)
        raise SystemExit(130)


def _fit_on_spark(context: Any, model: Any, public: dict[str, Any], valid: Any) -> None:
    """Fit a model to rows of Parquet files: user, item and rating, unless columns are named."""
    options, begin = context.params, time.perf_counter()
    more: dict[str, Any]
    model_runs.check_rows_model(model)
    with engines.chosen(context, model_runs.LOCAL) as engine:
        source = engines.address(context, options["ratings"])
        columns = model_runs.row_columns(model, options)
        input_files.announce(source, columns, options)
        if model.get_params().get("epsilon") is not None:
            stored = model_runs.release_rows(model, source, engine, columns, public, options)
            more = {"stored": stored}
        else:
            taken = "valid" in signature(model.fit_rows).parameters
            watched = {"checkpoint": options["checkpoint"], **({"valid": valid} if taken else {})}
            model.fit_rows(source, engine=engine, columns=columns, **public, **watched)
            more = model_runs.validated(model, None, valid)
        more |= {"engine": repr(engine)}
    _save(model, options, {**more, "seconds": round(time.perf_counter() - begin, 3)})


def _save(model: Any, options: dict[str, Any], more: dict[str, Any]) -> None:
    """Write a fitted model, and describe it."""
    from sfumato.cli import printing

    output, json = options["output"], options["json"]
    model.save(output)
    printing.document({**model_runs.described(model, output), **more}, json)
    if model.statement is not None:
        printing.promise(model.statement, json, model_runs.one_list(model))


def show(file: Path, json: bool) -> None:
    """Describe the model in a file."""
    from sfumato.cli import printing
    from sfumato.recommend import load

    model = load(file)
    printing.document(model_runs.described(model, file), json)
    if model.statement is not None:
        printing.promise(model.statement, json)


def models(json: Json = False) -> None:
    """List the models that fit can make.

    For each: what it learns, needs and stores, and its privacy.
    """
    from sfumato.cli import printing
    from sfumato.recommend.models import MODELS

    printing.rows([each.facts() for each in MODELS.values()], json)


@takes(input_files.COLUMNS, before="json")
def evaluate(
    context: typer.Context,
    model: Model,
    test: Annotated[Path, typer.Argument(help="Test ratings, not used in training.")],
    top: Annotated[
        int | None,
        typer.Option(help="Measure lists of the best N; default: 10 where ratings are not."),
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option("--seen", help="Ratings whose items are left out of the lists.")
    ] = None,
    relevant_from: Annotated[
        float | None, typer.Option(help="Smallest rating that makes a test item relevant.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure a model on test rows: ratings and lists.

    Lists are measured with --top, --seen or --relevant-from, or if the model predicts no ratings.
    """
    from sfumato.cli import printing

    printing.check_kind(model, "model")
    from sfumato.recommend import load
    from sfumato.recommend.metrics.rating import evaluate as measured

    given = input_files.columns(context.params)
    rows = input_files.read(test, given, context.params)
    known = None if exclude is None else input_files.read(exclude, given, context.params)
    loaded = load(model)
    errors = getattr(loaded, "predicts_ratings", False) and rows.has_ratings
    if top is None and not (errors and exclude is None and relevant_from is None):
        top = model_runs.LIST
    with printing.progress("evaluating", "users", hidden=quiet or json) as advance:
        scores = measured(
            loaded, rows, n=top, exclude=known, relevant_from=relevant_from, progress=advance
        )
    printing.document({**scores, **input_files.reported(rows, known)}, json)


@takes(input_files.COLUMNS, before="json")
def recommend(
    context: typer.Context,
    model: Model,
    user: Annotated[
        str | None, typer.Argument(help="The user's id, after -- if it begins with -.")
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Number of items.", min=1)] = 10,
    exclude: Annotated[
        Path | None, typer.Option("--seen", help="Ratings whose items are left out.")
    ] = None,
    likes: Annotated[
        list[str] | None, typer.Option(help="An item that a new user likes; repeatable.")
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(help="Parquet files of events: lists for all their users, into -o."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="With --users: a new folder of Parquet files."),
    ] = None,
    titles: Annotated[
        Path | None, typer.Option(help="A table of items with their titles, shown beside ids.")
    ] = None,
    title_column: Annotated[
        str | None,
        typer.Option(help="Its titles: a name or number; default: title, name, or the second."),
    ] = None,
    title_id_column: Annotated[
        str | None, typer.Option(help="Its ids: a name or number; default: the first.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Recommend items to a user, a new user, or all users of a table.

    With --users, --user-column names the column of users (default: user), and --item-column the
    column of items to leave out (default: none is left out).
    """
    from sfumato.cli import printing

    if (users is None) != (output is None):
        raise ValueError("recommend: --users and --output go together; give both or neither.")
    if users is not None:
        _recommend_to_all(context)
        return
    if engines.on_spark(context):
        raise ValueError("recommend: the list of one user is made here; leave --engine out.")
    if (user is None) == (not likes):
        raise ValueError("recommend: give either a user's id or, for a new user, --likes ITEM.")
    if user is None and exclude is not None:
        raise ValueError("recommend: --seen goes with a user's id; for a new user give --likes.")
    if titles is None and (title_column or title_id_column):
        raise ValueError("recommend: --title-column and --title-id-column go with --titles FILE.")
    printing.check_kind(model, "model")
    from sfumato.recommend import load

    loaded = load(model)
    given = input_files.columns(context.params)
    known = None if exclude is None else input_files.read(exclude, given, context.params)
    found = model_runs.best(loaded, user, likes or [], n, known)
    if user is not None and not quiet and not model_runs.may_know(loaded, user):
        print(
            f"sfumato: {model} does not know user {user}, who gets what is popular.",
            file=sys.stderr,
        )
    if user is not None and not quiet and model_runs.one_list(loaded):
        print(f"sfumato: {model_runs.one_list(loaded)}", file=sys.stderr)
    named = None if titles is None else input_files.titles(titles, context.params)
    rows: list[dict[str, Any]] = [{"item": item, "score": score} for item, score in found]
    if named is not None:
        rows = [{"item": r["item"], "title": named.get(str(r["item"])), **r} for r in rows]
    printing.rows(rows, json)


def _recommend_to_all(context: Any) -> None:
    """Write lists for all users of Parquet files."""
    from sfumato.cli import printing
    from sfumato.engine import LocalEngine
    from sfumato.recommend import load
    from sfumato.recommend.all_users import recommend_all

    given, begin = context.params, time.perf_counter()
    alone = {name: value for name, value in given_options(given).items() if value}
    refuse_options("recommend", "--users", alone, ALONE)
    if given["output"].exists():
        raise FileExistsError(f"{given['output']}: is there already; name a new folder.")
    printing.check_kind(given["model"], "model")
    loaded = load(given["model"])
    columns = {"user_column": given["user_column"] or "user", "item_column": given["item_column"]}
    with engines.chosen(context) as engine:
        source = engines.address(context, given["users"]) if engine else given["users"]
        engine = engine or LocalEngine()
        rows = recommend_all(loaded, source, engine=engine, n=given["n"], **columns)
        rows.write(given["output"])
    seconds = round(time.perf_counter() - begin, 3)
    about = {"folder": str(given["output"]), "engine": repr(engine), "n": given["n"]}
    printing.document({**about, "seconds": seconds}, given["json"])


@takes(model_options.TUNED | input_files.FEATURES, before="force")
@takes(model_options.SEED | input_files.COLUMNS, before="force")
def tune(
    context: typer.Context,
    ratings: Ratings,
    valid: Annotated[
        Path | None,
        typer.Option(help="Validation rows; default: a tenth of the training rows."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the best model.")
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Log of the trials; a search that was stopped resumes from it."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Search the parameters of a model, first coarsely, then finely.

    The best are those with the best validation rows: by NDCG@10 for lists, by RMSE for
    --objective ratings. Ctrl-C keeps the log. A private model is not tuned, since each trial would
    cost privacy that nobody charges.
    """
    from sfumato.cli import model_options, printing
    from sfumato.recommend.tuning import tune as search

    if output is not None:
        check_output(output, force, ratings, valid, log)
    given = input_files.columns(context.params)
    model = model_options.make("tune", {**context.params, "valid": None})
    kind = model_options.kind("tune", context.params)
    if not kind.grids:
        raise ValueError(f"tune: --model {kind.name} has nothing to tune; name another.")
    known = input_files.features("tune", [kind.kind], context.params)
    train, held = _parts(ratings, valid, given, context.params)
    with printing.progress("tuning", "trials", hidden=quiet or json) as advance:
        try:
            found = search(
                model,
                train,
                held,
                grids=kind.grids,
                log=log,
                progress=lambda done, total, trial: advance(done, total, _value(trial)),
                refit=output is not None,
                **known,
            )
        except KeyboardInterrupt:
            if log is None or not log.exists():
                raise
            hint = f"{log} keeps the trials done; the same command goes on from it"
            print(f"sfumato: stopped; {hint}.", file=sys.stderr)
            raise SystemExit(130) from None
    if output is not None:
        found.model.save(output)
    summary: dict[str, Any] = {
        "best": found.parameters,
        f"valid_{found.metric}": getattr(found, found.metric),
        "trials": len(found.trials),
        "model": None if output is None else str(output),
        **input_files.reported(train, held),
    }
    printing.document(summary, json)


def _value(trial: Any) -> float | None:
    """What a trial is judged by."""
    value: float | None = trial.rmse if trial.ndcg is None else trial.ndcg
    return value


def _parts(
    file: Path, valid: Path | None, given: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    ratings = input_files.read(file, given, options)
    if valid is not None:
        return ratings, input_files.read(valid, given, options)
    train, held = ratings.split(0.9, 0.1, random_state=0)
    return train, held

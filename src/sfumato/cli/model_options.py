"""What `sfumato fit` and `recommend` share: the requested model, progress, description.

How commands read ratings, lists of ids, and one id from the command line.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import check_output
from sfumato.cli.release_options import is_stored, way_back

__all__ = [
    "COLUMNS",
    "FEATURES",
    "LEARNED",
    "LIST",
    "PRIVATE_COLUMNS",
    "SEED",
    "TUNED",
    "Columns",
    "bar",
    "best",
    "check_report",
    "columns",
    "curators_report",
    "described",
    "features",
    "id_of",
    "kind",
    "listed",
    "make",
    "private",
    "public",
    "read",
    "release",
    "reported",
    "run",
    "typed",
    "validated",
]

Encoding = Annotated[str, typer.Option(help="Of the text: utf-8, latin-1 or utf-16; not guessed.")]

Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether line 1 holds names; as it looks if untold."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Where to write, for the curator, how many rows were left out or clipped: raw counts."
    ),
]

# Options of several commands, which `takes` gives them.
COLUMNS: dict[str, Any] = {
    **{
        f"{name}_column": Annotated[str | None, typer.Option(help="Name or number, from 0.")]
        for name in ("user", "item", "rating", "time")
    },
    "no_ratings": Annotated[bool, typer.Option("--no-ratings", help="Only users and items.")],
    "header": Header,
    "delimiter": Annotated[str | None, typer.Option(help="Field separator; default: detected.")],
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")],
}
PRIVATE_COLUMNS: dict[str, Any] = {
    **{name: kind for name, kind in COLUMNS.items() if name != "skip_bad"},
    "encoding": Annotated[str | None, typer.Option(help="Guessed, but utf-8 with --epsilon.")],
    "skip_bad": COLUMNS["skip_bad"],
}
LEARNED: dict[str, Any] = {
    "model": Annotated[
        str | None, typer.Option(help="A name that sfumato models lists; default: linear-items.")
    ],
    "objective": Annotated[
        str | None, typer.Option(help="ranking: lists to choose from (default); or ratings: stars.")
    ],
    "dense": Annotated[bool, typer.Option("--dense", help="Short for --model dense.")],
    "factors": Annotated[int | None, typer.Option(help="Numbers a user or item has.")],
    "depth": Annotated[int | None, typer.Option(help="Rows of the sketch; 1: hashing.")],
    "gain": Annotated[float | None, typer.Option(help="How much smaller than dense.")],
    "cells": Annotated[int | None, typer.Option(help="Cells of the sketch, instead of gain.")],
    "epochs": Annotated[int | None, typer.Option(help="Passes over the ratings.")],
    "learning_rate": Annotated[float | None, typer.Option(help="Default: that of the model.")],
    "regularization": Annotated[float | None, typer.Option(help="Default: that of the model.")],
    "clip": Annotated[float | None, typer.Option(help="Skip ratings of a larger loss.")],
    "threads": Annotated[int | None, typer.Option(help="At once, on one table.")],
    "neighbours": Annotated[int | None, typer.Option(help="Similar items of an item.")],
    "weighting": Annotated[
        str | None, typer.Option(help="Of rows for lists: equal, or log for counts.")
    ],
    "relevant_from": Annotated[
        float | None, typer.Option(help="Lists learn from ratings from here on; default: all.")
    ],
    "settings": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another parameter; repeatable."),
    ],
}
FEATURES: dict[str, Any] = {
    "item_features": Annotated[
        Path | None, typer.Option(help="Features of items: ids in the first column.")
    ],
    "text_columns": Annotated[
        str | None, typer.Option(help="Texts of --item-features: names or numbers, by commas.")
    ],
    "feature_columns": Annotated[
        str | None, typer.Option(help="Categories of --item-features: genre,year or genre=2.")
    ],
    "user_features": Annotated[
        Path | None, typer.Option(help="Attributes of users: ids in the first column.")
    ],
    "attribute_columns": Annotated[
        str | None, typer.Option(help="Categories of --user-features: names or numbers.")
    ],
    "value_separator": Annotated[
        str | None, typer.Option(help="Between the values of a category; default: |.")
    ],
}
TUNED = {
    name: kind for name, kind in LEARNED.items() if name not in ("learning_rate", "regularization")
}
SEED = {"seed": Annotated[int | None, typer.Option(help="Random seed; default: 0.")]}

Columns = dict[str, Any]
ROLES = ("users", "items", "ratings", "times")
LIST = 10  # items of a list that is measured, where no other number is given
BETWEEN_FIELDS = re.compile(r"\t|::|;|,")


def columns(options: dict[str, Any]) -> Columns:
    """The options of `read_interactions` among those of a command."""
    named = {role: options.get(f"{role.removesuffix('s')}_column") for role in ROLES}
    given: Columns = {name: _place(value) for name, value in named.items() if value is not None}
    if options.get("delimiter") is not None:
        given["delimiter"] = options["delimiter"].replace("\\t", "\t")
    if options.get("skip_bad"):
        given["on_error"] = "skip"
    if options.get("no_ratings"):
        if "ratings" in given:
            raise ValueError("--rating-column does not go with --no-ratings; give one of them.")
        given["ratings"] = False
    for name in ("encoding", "header"):
        if options.get(name) is not None:
            given[name] = options[name]
    return given


def private(options: dict[str, Any]) -> Columns:
    """As `columns`, so that one row changes nothing about how the others are read, and none stops.

    All readable rows are used, duplicates included: dropping duplicates would let one added row
    change two. Times are not read, since no private model uses them.
    """
    given = {name: value for name, value in columns(options).items() if name != "on_error"}
    return {**given, "times": False, "invalid": "drop"}


def check_report(report: Path | None, output: Path, force: bool, *inputs: Path | None) -> None:
    """Refuse a report that could not be written, or would be the output or an input."""
    if report is None:
        return
    if report.resolve() == output.resolve():
        raise FileExistsError(f"{report}: is the output as well; name another report.")
    check_output(report, force, *inputs)


def curators_report(
    path: Path | None, rows: Any, lists: dict[str, Any], bounds: Any = None
) -> None:
    """Write how many rows a private command drops and clips, if --report was given."""
    if path is None:
        return
    from dataclasses import asdict
    from json import dumps

    from sfumato.core.file_format import write_atomic

    used = rows.outside(users=lists.get("users"), items=lists.get("catalogue"), bounds=bounds)
    reports = {
        "audience": "the curator alone: exact counts of raw rows, no part of a release",
        "read": asdict(rows.report),
        "used": asdict(used),
    }
    write_atomic(path, (dumps(reports, indent=1) + "\n").encode())


def read(path: Path, given: Columns) -> Any:
    """Read the interactions of a file; the error of a missing one names it."""
    from sfumato.data import read_interactions

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return read_interactions(path, **given)


FEATURE_FILES = {"features": "item_features", "attributes": "user_features"}
FEATURE_COLUMNS = {
    "item_features": ("text_columns", "feature_columns"),
    "user_features": ("attribute_columns",),
}


def features(command: str, kinds: list[Any], options: dict[str, Any]) -> dict[str, Any]:
    """The features of items and attributes of users that were given, for models of these kinds."""
    found, given = {}, _given(options)
    for role, name in FEATURE_FILES.items():
        takers = [each for each in kinds if role in signature(each.fit).parameters]
        columns = [_option(each) for each in FEATURE_COLUMNS[name]]
        if name in given:
            if not takers:
                raise ValueError(f"{command}: {_option(name)} does not go with these models.")
            found[role] = _features(command, name, given)
            continue
        if any(role in getattr(each, "NEEDS", ()) for each in takers):
            raise ValueError(
                f"{command}: {takers[0].__name__} needs {_option(name)} FILE, a table of {role} "
                f"with ids in its first column, and {' or '.join(columns)}."
            )
        _refuse(command, f"no {_option(name)}", given, FEATURE_COLUMNS[name])
    return found


def _features(command: str, name: str, given: dict[str, Any]) -> Any:
    from sfumato.data import read_features

    path, columns = given[name], FEATURE_COLUMNS[name]
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file; {_option(name)} names it.")
    if not any(each in given for each in columns):
        wanted = " or ".join(_option(each) for each in columns)
        raise ValueError(f"{command}: {_option(name)} goes with {wanted}: name its columns.")
    chosen = {each: given[each].split(",") for each in columns if each in given}
    texts = [_place(each.strip()) for each in chosen.pop("text_columns", [])]
    categories = {}
    for each in (each for several in chosen.values() for each in several):
        called, _, column = each.strip().partition("=")
        categories[called] = _place(column or called)
    separator = given.get("value_separator", "|")
    return read_features(path, texts=texts or None, categories=categories, separator=separator)


def reported(*read: Any) -> dict[str, Any]:
    """What was left out of files, where anything was."""
    reports = [str(each.report) for each in read if each is not None and each.report is not None]
    dropped = [each for each in reports if "dropped" in each or "skipped" in each]
    return {"left_out": " ".join(dropped)} if dropped else {}


def listed(path: Path, name: str, ratings: Path, encoding: str | None = None) -> Any:
    """Read ids from a text file, one per line: integers if all of them are."""
    if ratings.exists() and path.samefile(ratings):
        raise ValueError(f"{name}: {path} is the file of ratings; write the ids, one a line.")
    lines = _text(path, name, encoding or "utf-8").splitlines()
    for at, line in enumerate(lines, 1):
        if BETWEEN_FIELDS.search(line):
            raise ValueError(
                f"{name}: line {at} of {path} has several fields; write one id a line."
            )
    ids = [line for line in lines if line]
    if not ids:
        raise ValueError(f"{name}: {path} lists no ids; write one a line.")
    return typed(ids)


def _text(path: Path, name: str, encoding: str) -> str:
    try:
        return path.read_text(encoding.replace("utf-8", "utf-8-sig"))
    except (UnicodeError, LookupError):
        raise ValueError(f"{name}: {path} is not {encoding}; see --encoding.") from None


def typed(texts: list[str]) -> Any:
    """Ids as a file of ratings would have them: integers if all are, written plainly."""
    import numpy as np

    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts, object)
    plain = all(
        str(number) == text and -(2**63) <= number < 2**63
        for number, text in zip(numbers, texts, strict=True)
    )
    return np.array(numbers, np.int64) if plain else np.array(texts, object)


def id_of(text: str, kind: str) -> int | str:
    """One id of the kind that a file has."""
    if kind != "integers":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"ids here are integers; {text!r} is none.") from None


def _place(text: str) -> str | int:
    return int(text) if text.isdigit() else text


PRIVATE = ("epsilon", "delta", "unit", "covers", "per_user")
PAID = ("ledger", "dataset", "release_id")
OF_RATINGS = ("bounds", "accounts", "unit", "covers", "factors")  # of private models
FACTORS = ("factors", "depth", "gain", "cells", "epochs", "learning_rate", "clip", "threads")
# The options that are parameters of models, and those that are called otherwise there.
PARAMETERS = (
    *("regularization", "neighbours", "weighting", "relevant_from", "seed", "bounds"),
    *FACTORS,
    *PRIVATE,
)
WRITTEN = {"gain": "space_gain", "seed": "random_state"}


def make(command: str, options: dict[str, Any]) -> Any:
    """The model that the options of a command describe; what was not given keeps its default."""
    given, chosen = _given(options), kind(command, options)
    if not chosen.private:
        _refuse(command, "a model without --epsilon", given, (*PAID, "accounts", "report"))
    limits = chosen.kind.LIMITS
    foreign = [name for name in PARAMETERS if WRITTEN.get(name, name) not in limits]
    foreign += ["valid"] if chosen.private else []
    foreign += [] if "users" in signature(chosen.kind.fit).parameters else ["accounts"]
    _refuse(command, f"--model {chosen.name}", given, foreign)
    if "gain" in given and "cells" in given:
        raise ValueError(f"{command}: --gain does not go with --cells; give one of them.")
    settings = _settings(command, chosen, given.get("settings", []))
    if chosen.private:
        _need(chosen, {**given, **settings})
    parameters = {WRITTEN.get(name, name): given[name] for name in PARAMETERS if name in given}
    if "objective" in limits:
        parameters["objective"] = _objective(command, given)
    for name, each in signature(chosen.kind).parameters.items():
        if each.default is each.empty and name not in parameters | settings:
            raise ValueError(f"{command}: --model {chosen.name} needs --set {name}=VALUE.")
    return chosen.kind(**parameters, **settings)


OBJECTIVES = ("ranking", "ratings")  # the first is the default


def kind(command: str, options: dict[str, Any]) -> Any:
    """The kind of model that options name, or imply by what only some models have."""
    from sfumato.recommend.models import default_model, named_model

    given = _given(options)
    name, objective = given.get("model"), _objective(command, given)
    if "dense" in given and name not in (None, "dense"):
        raise ValueError(f"{command}: --dense does not go with --model {name}; give one of them.")
    if name is None and "dense" in given:
        name = "dense"
    elif name is None and any(option in given for option in PRIVATE):
        name = default_model(objective, private=True)
    elif name is None and any(option in given for option in FACTORS):
        name = "sketch"
    chosen = named_model(name or default_model(objective))
    if "objective" in given and objective not in chosen.objectives:
        learns = chosen.facts()["learns"]
        raise ValueError(
            f"{command}: --objective {objective} does not go with --model {chosen.name}, which "
            f"learns {learns}."
        )
    return chosen


def _objective(command: str, given: dict[str, Any]) -> str:
    """What is to be learned: as given, or ratings where a private model is given what they need."""
    from sfumato.core.validation import one_of

    rated = any(name in given for name in PRIVATE) and any(name in given for name in OF_RATINGS)
    objective = given.get("objective", OBJECTIVES[1 if rated else 0])
    return one_of(OBJECTIVES).check(command, "--objective", objective)


def _settings(command: str, chosen: Any, settings: list[str]) -> dict[str, Any]:
    """Parameters of a model from NAME=VALUE; values are JSON scalars, or else text."""
    from json import loads

    own = {WRITTEN.get(name, name): name for name in (*PARAMETERS, "objective")}
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{command}: --set must be NAME=VALUE, not {setting!r}.")
        if name in own:
            raise ValueError(f"{command}: --set {name}: that is {_option(own[name])}.")
        if name not in chosen.kind.LIMITS:
            there = ", ".join(each for each in chosen.kind.LIMITS if each not in own) or "none"
            raise ValueError(
                f"{command}: --model {chosen.name} has no parameter {name!r}; those that --set "
                f"gives are: {there}."
            )
        try:
            value = loads(text)
        except ValueError:
            value = text
        value = text if isinstance(value, list | dict) else value
        found[name] = chosen.kind.LIMITS[name].check(chosen.kind.__name__, name, value)
    return found


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in options.items() if each is not None and each is not False}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _refuse(command: str, wanted: str, given: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if name in given:
            raise ValueError(f"{command}: {_option(name)} does not go with {wanted}.")


def _need(chosen: Any, given: dict[str, Any]) -> None:
    """Raise where a private model lacks something that is never taken from the data."""
    limits = chosen.kind.LIMITS
    needed = [name for name in ("epsilon", "delta", "bounds") if name in limits] + ["catalogue"]
    if given.get("unit") == "user":
        needed += ["per_user"]
    elif "rows" in limits and "rows" not in given:  # users who share no rows are listed
        needed += ["accounts"]
    missing = [_option(name) for name in needed if name not in given]
    if missing:
        raise ValueError(
            f"fit: a private model needs {', '.join(missing)}: never taken from the data."
        )


def public(options: dict[str, Any]) -> dict[str, Any]:
    """The public lists that were given."""
    names = {"catalogue": "catalogue", "users": "accounts"}
    return {
        role: listed(options[name], name, options["ratings"], options["encoding"])
        for role, name in names.items()
        if options[name] is not None
    }


def run(model: Any, train: Any, valid: Any, lists: dict[str, Any], *, hidden: bool) -> str | None:
    """Fit a model; a note on what was saved if it was interrupted after an epoch, else None."""
    taken = signature(model.fit).parameters
    with bar("fitting", hidden=hidden) as advance:
        options = {"valid": valid, "progress": advance}
        known = {name: value for name, value in options.items() if name in taken}
        try:
            model.fit(train, **lists, **known)
        except KeyboardInterrupt:
            if not getattr(model, "history_", []):
                raise
            return f"the last whole epoch, {len(model.history_)} of {model.epochs}"
    return None


def validated(model: Any, train: Any, valid: Any) -> dict[str, float]:
    """How well a fitted model does on validation rows: as it watched, or the NDCG of its lists."""
    if valid is None:
        return {}
    if "valid" in signature(model.fit).parameters:
        last = model.history_[-1].items()
        return {name: value for name, value in last if name.startswith("valid_")}
    from sfumato.recommend.metrics.rating import evaluate

    return {"valid_ndcg": evaluate(model, valid, n=LIST, exclude=train)["ndcg"]}


def release(model: Any, train: Any, lists: dict[str, Any], options: dict[str, Any]) -> bool:
    """Fit a private model; True if stored before. Errors after the charge say how to resume."""
    given = {name: options[name] for name in PAID if options[name] is not None}
    if "ledger" not in given:
        model.fit(train, **lists, **given)
        return False
    given.setdefault("release_id", secrets.token_hex(16))
    stored = is_stored(given["ledger"], given["release_id"])
    with way_back(given["ledger"], given["release_id"]):
        model.fit(train, **lists, **given)
    return stored


@contextmanager
def bar(title: str, *, hidden: bool) -> Iterator[Any]:
    """A bar on stderr, with the time left and, where one is watched, the validation metric."""
    from rich.console import Console

    console = Console(stderr=True)
    if hidden or not console.is_terminal:
        yield None
        return
    from rich import progress as bars

    shown = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with bars.Progress(*shown, console=console, transient=True) as running:
        task = running.add_task(title, total=None)

        def advance(done: int, total: int, valid: float | None = None) -> None:
            words = title if valid is None else f"{title}, validation {valid:.4f}"
            running.update(task, completed=done, total=total, description=words)

        yield advance


def described(model: Any, file: Path) -> dict[str, Any]:
    """What a model in a file is, without its numbers."""
    found: dict[str, Any] = {
        "file": str(file),
        "kind": type(model).__name__,
        "parameters": model.get_params(),
        "catalogue": len(model.catalogue_),
        "nbytes": model.nbytes,
        "file_bytes": file.stat().st_size,
        "privacy": model.privacy_label,
    }
    if hasattr(model, "history_"):
        found["epochs_done"] = len(model.history_) or None
    if model.statement is not None and hasattr(model, "_item_vectors"):
        vectors = model._item_vectors(model.catalogue_.ids)
        found["components"] = int(vectors[:, :-1].any(axis=0).sum())
    if model.statement is not None:
        found["statement"] = model.statement.to_dict()
    return found


def best(
    model: Any, user: str | None, likes: list[str], n: int, exclude: Any
) -> list[tuple[Any, float]]:
    """Items and scores, best first, for a user, or folded in from some liked items."""
    if user is None:
        liked = [id_of(each, model.catalogue_.kind) for each in likes]
        items, scores = model.recommend_fold_in(liked, n=n)
    else:
        one = id_of(user, getattr(model, "user_kind_", "") or _kind(exclude))
        # A release of neighbours stores no histories: it recommends from a user's own items.
        own = "user_items" if "user_items" in signature(model.recommend).parameters else "exclude"
        if own == "user_items" and exclude is None:
            raise ValueError("recommend: this release needs the user's own items; give --seen.")
        items, scores = model.recommend(one, n, **{own: exclude})
    return list(zip(items.tolist(), scores.tolist(), strict=True))


def _kind(exclude: Any) -> str:
    """The kind of user ids for a model that takes integers and texts."""
    from sfumato.core.ids import kind_of

    return "text" if exclude is None else kind_of(exclude.users)

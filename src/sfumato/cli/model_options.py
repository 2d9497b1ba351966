"""What `sfumato fit` and `recommend` share: the requested model, progress, description.

How commands read ratings, lists of ids, and one id from the command line.
"""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import check_output
from sfumato.cli.release_options import is_stored, way_back

__all__ = [
    "COLUMNS",
    "LEARNED",
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
    "id_of",
    "listed",
    "make",
    "private",
    "public",
    "read",
    "release",
    "reported",
    "run",
    "typed",
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
    "delimiter": Annotated[str | None, typer.Option(help="Field separator; default: detected.")],
    "skip_bad": Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")],
}
PRIVATE_COLUMNS: dict[str, Any] = {
    **{name: kind for name, kind in COLUMNS.items() if name != "skip_bad"},
    "encoding": Annotated[str | None, typer.Option(help="Guessed, but utf-8 with --epsilon.")],
    "header": Header,
    "skip_bad": COLUMNS["skip_bad"],
}
LEARNED: dict[str, Any] = {
    "dense": Annotated[bool, typer.Option("--dense", help="Own vectors for all; no sketch.")],
    "factors": Annotated[int | None, typer.Option(help="Numbers a user or item has.")],
    "depth": Annotated[int | None, typer.Option(help="Rows of the sketch; 1: hashing.")],
    "gain": Annotated[float | None, typer.Option(help="How much smaller than dense.")],
    "cells": Annotated[int | None, typer.Option(help="Cells of the sketch, instead of gain.")],
    "epochs": Annotated[int | None, typer.Option(help="Passes over the ratings.")],
    "learning_rate": Annotated[float | None, typer.Option(help="Default: 0.05.")],
    "regularization": Annotated[float | None, typer.Option(help="Default: 0.05.")],
    "clip": Annotated[float | None, typer.Option(help="Skip ratings of a larger loss.")],
    "threads": Annotated[int | None, typer.Option(help="At once, on one table.")],
}
TUNED = {
    name: kind for name, kind in LEARNED.items() if name not in ("learning_rate", "regularization")
}
SEED = {"seed": Annotated[int | None, typer.Option(help="Random seed; default: 0.")]}

Columns = dict[str, Any]
ROLES = ("users", "items", "ratings", "times")
BETWEEN_FIELDS = re.compile(r"\t|::|;|,")


def columns(options: dict[str, Any]) -> Columns:
    """The options of `read_interactions` among those of a command."""
    named = {role: options.get(f"{role.removesuffix('s')}_column") for role in ROLES}
    given: Columns = {name: _place(value) for name, value in named.items() if value is not None}
    if options.get("delimiter") is not None:
        given["delimiter"] = options["delimiter"].replace("\\t", "\t")
    if options.get("skip_bad"):
        given["on_error"] = "skip"
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
    """Read the ratings of a file; the error of a missing one names it."""
    from sfumato.data import read_interactions

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return read_interactions(path, **given)


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


SKETCHED = ("depth", "gain", "cells")
DESCENT = ("epochs", "learning_rate", "regularization", "clip", "threads", "valid", "seed")
SHARED = ("factors", "bounds")
PRIVATE = ("epsilon", "delta", "unit", "covers", "per_user")
PAID = ("ledger", "dataset", "release_id")
WRITTEN = {"gain": "space_gain", "seed": "random_state"}  # what options are called as parameters


def make(command: str, options: dict[str, Any]) -> Any:
    """The model that the options of a command describe; what was not given keeps its default."""
    from sfumato.recommend import DenseFactorization, PrivateFactorization, SketchFactorization

    given = {name: value for name, value in options.items() if value is not None}
    if any(name in given for name in PRIVATE):
        _refuse(command, "--epsilon", given, (*DESCENT, *SKETCHED))
        _refuse(command, "--epsilon", {"dense": options["dense"] or None}, ("dense",))
        _need(given)
        return PrivateFactorization(**_parameters(given, (*PRIVATE, *SHARED)))
    _refuse(command, "a model without --epsilon", given, (*PAID, "accounts", "report"))
    learned = [name for name in (*SHARED, *DESCENT) if name != "valid"]
    if options["dense"]:
        _refuse(command, "--dense", given, SKETCHED)
        return DenseFactorization(**_parameters(given, learned))
    if "gain" in given and "cells" in given:
        raise ValueError(f"{command}: --gain does not go with --cells; give one of them.")
    return SketchFactorization(**_parameters(given, (*learned, *SKETCHED)))


def _parameters(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {WRITTEN.get(name, name): given[name] for name in names if name in given}


def _refuse(command: str, option: str, given: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if given.get(name) is not None:
            written = f"--{name.replace('_', '-')}"
            raise ValueError(f"{command}: {written} does not go with {option}.")


def _need(given: dict[str, Any]) -> None:
    """Raise where a private model lacks something that is never taken from the data."""
    needed = ["epsilon", "delta", "bounds", "catalogue"]
    needed += ["accounts"] if given.get("unit", "event") == "event" else ["per_user"]
    missing = [f"--{name.replace('_', '-')}" for name in needed if name not in given]
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
    """Fit a model by gradient descent; a note on what was saved if interrupted, else None."""
    with bar("fitting", hidden=hidden) as advance:
        try:
            model.fit(train, valid, **lists, progress=advance)
        except KeyboardInterrupt:
            if not getattr(model, "history_", []):
                raise
            return f"the last whole epoch, {len(model.history_)} of {model.epochs}"
    return None


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
    """A bar on stderr, with the time left and the error where one is watched."""
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

        def advance(done: int, total: int, error: float | None = None) -> None:
            words = title if error is None else f"{title}, rmse {error:.4f}"
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
    if hasattr(model, "seen_"):
        found["epochs_done"] = len(model.history_) or None
    if model.statement is not None:
        vectors = model._item_vectors(model.catalogue_.ids)
        found["components"] = int(vectors[:, :-1].any(axis=0).sum())
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
        one = id_of(user, model.user_kind_ or _kind(exclude))
        items, scores = model.recommend(one, n, exclude=exclude)
    return list(zip(items.tolist(), scores.tolist(), strict=True))


def _kind(exclude: Any) -> str:
    """The kind of user ids for a model that takes integers and texts."""
    from sfumato.core.ids import kind_of

    return "text" if exclude is None else kind_of(exclude.users)

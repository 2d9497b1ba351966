"""What stands behind `sfumato fit` and `recommend`: the model asked for, run under a bar, told."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.cli import _ratings
from sfumato.cli._releasing import is_stored, way_back

__all__ = ["bar", "best", "make", "public", "release", "run", "told"]

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
        role: _ratings.listed(options[name], name, options["ratings"], options["encoding"])
        for role, name in names.items()
        if options[name] is not None
    }


def run(model: Any, train: Any, valid: Any, lists: dict[str, Any], *, hidden: bool) -> str | None:
    """Fit a model by descent; the words for what was kept if it was stopped, else None."""
    with bar("fitting", hidden=hidden) as tell:
        try:
            model.fit(train, valid, **lists, progress=tell)
        except KeyboardInterrupt:
            if not getattr(model, "history_", []):
                raise
            return f"the last whole epoch, {len(model.history_)} of {model.epochs}"
    return None


def release(model: Any, train: Any, lists: dict[str, Any], options: dict[str, Any]) -> bool:
    """Fit a private model; whether it was a stored one. After a charge the way back is told."""
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

        def tell(done: int, total: int, error: float | None = None) -> None:
            words = title if error is None else f"{title}, rmse {error:.4f}"
            running.update(task, completed=done, total=total, description=words)

        yield tell


def told(model: Any, file: Path) -> dict[str, Any]:
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
    model: Any, user: str | None, likes: list[str], n: int, seen: Any
) -> list[tuple[Any, float]]:
    """Items and scores, best first, for a user or for a guest who likes some items."""
    if user is None:
        liked = [_ratings.id_of(each, model.catalogue_.kind) for each in likes]
        items, scores = model.recommend_guest(liked, n=n)
    else:
        one = _ratings.id_of(user, model.user_kind_ or _kind(seen))
        items, scores = model.recommend(one, n, exclude=seen)
    return list(zip(items.tolist(), scores.tolist(), strict=True))


def _kind(seen: Any) -> str:
    """What ids of users are, for a model that takes them as integers and as texts alike."""
    from sfumato.sketch._ids import kind_of

    return "text" if seen is None else kind_of(seen.users)

"""What stands behind `sfumato fit` and `recommend`: the model asked for, run under a bar, told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.cli import _ratings

__all__ = ["bar", "best", "make", "public", "run", "told"]

SKETCHED = ("depth", "space_gain", "cells")
NOT_PRIVATE = ("epochs", "learning_rate", "regularization", "clip", "threads", *SKETCHED)


def make(
    descent: dict[str, Any], private: dict[str, Any], *, dense: bool, random_state: int
) -> Any:
    """The model that the options describe; what was not given keeps its default."""
    from sfumato.recommend import DenseFactorization, PrivateFactorization, SketchFactorization

    given = {name: value for name, value in descent.items() if value is not None}
    promised = {name: value for name, value in private.items() if value is not None}
    if promised:
        _refuse("--epsilon", given, NOT_PRIVATE)
        if dense:
            raise ValueError("fit: --dense does not go with --epsilon; a private model has none.")
        missing = [name for name in ("epsilon", "delta") if name not in promised]
        missing += [] if "bounds" in given else ["bounds"]
        if missing:
            raise ValueError(
                f"fit: a private model needs --{missing[0]}; it is never taken from the data."
            )
        return PrivateFactorization(**promised, **given)
    if dense:
        _refuse("--dense", given, SKETCHED)
        return DenseFactorization(**given, random_state=random_state)
    return SketchFactorization(**given, random_state=random_state)


def _refuse(option: str, given: dict[str, Any], names: tuple[str, ...]) -> None:
    wrong = [name for name in names if name in given]
    if wrong:
        written = "--gain" if wrong[0] == "space_gain" else f"--{wrong[0].replace('_', '-')}"
        raise ValueError(f"fit: {written} does not go with {option}.")


def public(catalogue: Path | None, accounts: Path | None) -> dict[str, Any]:
    """The public lists that were given."""
    files = {"catalogue": catalogue, "users": accounts}
    return {
        name: _ratings.listed(path, "accounts" if name == "users" else name)
        for name, path in files.items()
        if path is not None
    }


def run(
    model: Any, train: Any, valid: Any, lists: dict[str, Any], paid: dict[str, Any], *, hidden: bool
) -> str | None:
    """Fit the model; the words for what was kept if it was stopped, else None."""
    from sfumato.recommend import PrivateFactorization

    if isinstance(model, PrivateFactorization):
        given = {name: value for name, value in paid.items() if value is not None}
        model.fit(train, **lists, **given)
        return None
    for name in ("ledger", "dataset", "release_id"):
        if paid[name] is not None:
            raise ValueError(f"fit: --{name.replace('_', '-')} pays for --epsilon, which is none.")
    with bar("fitting", hidden=hidden) as tell:
        try:
            model.fit(train, valid, **lists, progress=tell)
        except KeyboardInterrupt:
            if not getattr(model, "history_", []):
                raise
            return f"the last whole epoch, {len(model.history_)} of {model.epochs}"
    return None


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
    found = {
        "file": str(file),
        "kind": type(model).__name__,
        "parameters": model.get_params(),
        "catalogue": len(model.catalogue_),
        "nbytes": model.nbytes,
        "file_bytes": file.stat().st_size,
        "privacy": model.privacy_label,
    }
    if model.statement is not None:
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
        one = _ratings.id_of(user, model.user_kind_)
        items, scores = model.recommend(one, n, exclude=seen)
    return list(zip(items.tolist(), scores.tolist(), strict=True))

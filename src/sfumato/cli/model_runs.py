"""What commands do with a model: fit it with a bar, release it, describe it, and list items."""

import secrets
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sfumato.cli.input_files import id_of
from sfumato.cli.model_options import PAID
from sfumato.cli.release_options import is_stored, way_back
from sfumato.cli.waiting import progress

__all__ = [
    "LIST",
    "LOCAL",
    "best",
    "check_preferences",
    "check_rows_model",
    "described",
    "may_know",
    "one_list",
    "release",
    "release_rows",
    "row_columns",
    "run",
    "validated",
]

LIST = 10  # items of a list that is measured, where no other number is given


def run(model: Any, train: Any, valid: Any, lists: dict[str, Any], *, hidden: bool) -> str | None:
    """Fit a model; a note on what was saved if it was interrupted after an epoch, else None."""
    taken = signature(model.fit).parameters
    unit = "epochs" if hasattr(model, "epochs") else "iterations"
    with progress("fitting", unit, hidden=hidden) as advance:
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


LOCAL = (  # options of fit for files of this machine
    *("header", "delimiter", "encoding", "skip_bad", "time_column", "threads", "report"),
    *("item_features", "text_columns", "feature_columns", "user_features"),
    *("attribute_columns", "value_separator"),
)


def check_rows_model(model: Any) -> None:
    """Refuse a model that does not learn from rows of an engine."""
    if not hasattr(model, "fit_rows"):
        raise ValueError(
            f"fit: {type(model).__name__} learns on this machine only; leave --engine out, or take "
            "--model sketch --objective ratings, --model als, or --epsilon."
        )


def row_columns(model: Any, options: dict[str, Any]) -> tuple[str, ...]:
    """Names of the columns that a model reads; ratings where it learns from them."""
    names = [options[f"{role}_column"] or role for role in ("user", "item")]
    usual = signature(model.fit_rows).parameters["columns"].default
    rated = "rating" in usual or options["rating_column"] is not None
    return tuple(names + ([options["rating_column"] or "rating"] if rated else []))


def release_rows(
    model: Any,
    source: Any,
    engine: Any,
    columns: tuple[str, ...],
    lists: dict[str, Any],
    options: dict[str, Any],
) -> bool:
    """As `release`, of rows of an engine."""

    def fit(_: Any, **given: Any) -> None:
        model.fit_rows(source, engine=engine, columns=columns, **given)

    return release(SimpleNamespace(fit=fit), None, lists, options)


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
    if one_list(model):
        found["one_list"] = one_list(model)
    return found


def one_list(model: Any) -> str:
    """Why a private model has one list for all users, in words; "" where it has not."""
    return str(getattr(model, "one_list", ""))


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


def check_preferences(train: Any, relevant_from: float | None) -> None:
    """Refuse a limit of relevance above all ratings."""
    if relevant_from is None or not train.has_ratings:
        return
    if not (train.ratings >= relevant_from).any():
        raise ValueError(
            f"fit: no rating is {relevant_from:g} or more, so that nothing is left to learn from; "
            "lower --relevant-from."
        )


def may_know(model: Any, user: str) -> bool:
    """Whether a model has a user, or stores no ids of users."""
    stored = (
        getattr(getattr(model, "histories_", None), "users", None),
        getattr(getattr(model, "profiles_", None), "users_", None),
        getattr(model, "users_", None),
        getattr(model, "_known_users", None),
    )
    known = next((each for each in stored if each is not None), None)
    ids = getattr(known, "ids", known)
    return ids is None or id_of(user, getattr(model, "user_kind_", "")) in set(ids.tolist())


def _kind(exclude: Any) -> str:
    """The kind of user ids for a model that takes integers and texts."""
    from sfumato.core.ids import kind_of

    return "text" if exclude is None else kind_of(exclude.users)

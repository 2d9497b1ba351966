"""The model that the options of `sfumato fit` and `tune` describe."""

from inspect import signature
from typing import Annotated, Any

import typer

from sfumato.cli.options import given_options, option_name, refuse_options

__all__ = ["LEARNED", "PAID", "SEED", "TUNED", "kind", "make"]

LEARNED: dict[str, Any] = {
    "model": Annotated[
        str | None, typer.Option(help="A name that sfumato models lists; default: linear-items.")
    ],
    "objective": Annotated[
        str | None, typer.Option(help="ranking: lists to choose from (default); or ratings: stars.")
    ],
    "dense": Annotated[bool, typer.Option("--dense", help="Short for --model dense.")],
    "factors": Annotated[
        int | None, typer.Option(help="Number of factors of a user or item, with the bias.")
    ],
    "depth": Annotated[int | None, typer.Option(help="Rows of the sketch; 1 is feature hashing.")],
    "gain": Annotated[
        float | None, typer.Option(help="How many times smaller than a dense model.")
    ],
    "cells": Annotated[int | None, typer.Option(help="Cells of the sketch, instead of --gain.")],
    "epochs": Annotated[int | None, typer.Option(help="Passes over the ratings.")],
    "learning_rate": Annotated[float | None, typer.Option(help="Default: that of the model.")],
    "regularization": Annotated[float | None, typer.Option(help="Default: that of the model.")],
    "clip": Annotated[
        float | None, typer.Option(help="Skip ratings whose loss is larger than this.")
    ],
    "threads": Annotated[int | None, typer.Option(help="Number of threads, on one shared table.")],
    "neighbours": Annotated[
        int | None, typer.Option(help="Number of similar items stored for each item.")
    ],
    "weighting": Annotated[
        str | None, typer.Option(help="Weight of a row for lists: equal, or log for counts.")
    ],
    "relevant_from": Annotated[
        float | None,
        typer.Option(help="Smallest rating that counts as a choice; default: all ratings."),
    ],
    "settings": Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Another parameter, as NAME=VALUE; repeatable."
        ),
    ],
}
TUNED = {
    name: kind for name, kind in LEARNED.items() if name not in ("learning_rate", "regularization")
}
SEED = {"seed": Annotated[int | None, typer.Option(help="Random seed; default: 0.")]}
PAID = ("ledger", "dataset", "release_id")
PRIVATE = ("epsilon", "delta", "unit", "covers", "per_user")
OF_RATINGS = ("bounds", "accounts", "unit", "covers", "factors")  # of private models
FACTORS = ("factors", "depth", "gain", "cells", "epochs", "learning_rate", "clip", "threads")
# The options that are parameters of models, and those that are called otherwise there.
PARAMETERS = (
    *("regularization", "neighbours", "weighting", "relevant_from", "seed", "bounds"),
    *FACTORS,
    *PRIVATE,
)
WRITTEN = {"gain": "space_gain", "seed": "random_state"}
OBJECTIVES = ("ranking", "ratings")  # the first is the default


def make(command: str, options: dict[str, Any]) -> Any:
    """The model that the options of a command describe; what was not given keeps its default."""
    given, chosen = given_options(options), kind(command, options)
    if not chosen.private:
        refuse_options(command, "a model without --epsilon", given, (*PAID, "accounts", "report"))
    limits = chosen.kind.LIMITS
    foreign = [name for name in PARAMETERS if WRITTEN.get(name, name) not in limits]
    foreign += ["valid"] if chosen.private else []
    foreign += [] if "users" in signature(chosen.kind.fit).parameters else ["accounts"]
    refuse_options(command, f"--model {chosen.name}", given, foreign)
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


def kind(command: str, options: dict[str, Any]) -> Any:
    """The kind of model that options name, or imply by what only some models have."""
    from sfumato.recommend.models import default_model, named_model

    given = given_options(options)
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
            raise ValueError(f"{command}: --set {name}: that is {option_name(own[name])}.")
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


def _need(chosen: Any, given: dict[str, Any]) -> None:
    """Raise where a private model lacks something that is never taken from the data."""
    limits = chosen.kind.LIMITS
    needed = [name for name in ("epsilon", "delta", "bounds") if name in limits] + ["catalogue"]
    if given.get("unit") == "user":
        needed += ["per_user"]
    elif "rows" in limits and "rows" not in given:  # users who share no rows are listed
        needed += ["accounts"]
    missing = [option_name(name) for name in needed if name not in given]
    if missing:
        raise ValueError(
            f"fit: a private model needs {', '.join(missing)}: never taken from the data."
        )

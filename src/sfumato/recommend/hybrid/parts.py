"""The parts of a model made of models: how they are named, fitted, scored, and stored in its file.

A part is a model of `sfumato.recommend.models`. `PARTS` brings all ways of naming parts to one
plain form, a list of ``{"name": ..., "model": ..., "parameters": {...}}``, which a file contains.
"""

import inspect
import json
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from sfumato.core.storage import Cells
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import Estimator
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.base import PAIRS, Factorization
from sfumato.recommend.implicit.base import HistoryModel
from sfumato.recommend.ratings.base import RatingModel

__all__ = [
    "PARTS",
    "fit_part",
    "made_part",
    "part_arrays",
    "part_layout",
    "read_parts",
    "score_fold_in",
    "score_pairs",
    "score_table",
]

FIELDS = {"name", "model", "parameters"}
MOST = 64  # parts of a model
NESTED = 8  # levels of files within files that are read
WANTED = (
    'must be names of models as "dense,popular", a sequence of names or models, or a mapping of '
    "names to parameters or models; see sfumato.recommend.models"
)


class _PartsLimit:
    """Limit of the parts of a model; `check` returns their plain form."""

    def check(self, owner: str, name: str, value: Any) -> list[dict[str, Any]]:
        entries = [_entry(owner, name, *each) for each in _listed(owner, name, value)]
        if not 0 < len(entries) <= MOST:
            raise ParameterError.of(owner, name, f"{WANTED}; there must be 1 to {MOST} of them.")
        names = [entry["name"] for entry in entries]
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is not None:
            wanted = (
                f"must be of different names, and two are {twice!r}; give a mapping with names."
            )
            raise ParameterError.of(owner, name, wanted)
        return entries

    def bad(self) -> list[Any]:
        wrong = [{"popular": 3}, {"popular": {"model": "no such model"}}, ["popular", 3]]
        return ["", "popular,no such model", "{", [], {}, 5, ["popular", "popular"], *wrong]


PARTS = _PartsLimit()


def _listed(owner: str, name: str, value: Any) -> Iterable[tuple[str | None, Any]]:
    """Return pairs of the name of a part, None if it has none, and what describes it."""
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("{", "["):
            return [(None, each.strip()) for each in value.split(",")]
        try:
            value = json.loads(value)
        except ValueError:
            raise ParameterError.of(owner, name, f"{WANTED}; its JSON is malformed.") from None
    if isinstance(value, Mapping):
        return [(str(label), each) for label, each in value.items()]
    if isinstance(value, Iterable):
        return [
            (str(each["name"]), each)
            if isinstance(each, Mapping) and each.keys() == FIELDS
            else (None, each)
            for each in value
        ]
    raise ParameterError.of(owner, name, f"{WANTED}, not {type(value).__name__}.")


def _entry(owner: str, name: str, label: str | None, described: Any) -> dict[str, Any]:
    """Return the plain form of one part."""
    model, given = _model_of(owner, name, label, described)
    try:
        made = model.kind(**given)
        parameters = json.loads(json.dumps(made._check(), allow_nan=False))
    except TypeError as error:
        problem = (
            f"must be of parameters that {model.name} has and files can contain: {error!s:.200}"
        )
        raise ParameterError.of(owner, name, problem) from None
    except ValueError as error:
        problem = f"must be of valid parameters: {error!s:.300}"
        raise ParameterError.of(owner, name, problem) from None
    return {"name": label or model.name, "model": model.name, "parameters": parameters}


def _model_of(owner: str, name: str, label: str | None, described: Any) -> tuple[Any, Any]:
    """Return the entry of `MODELS` of a part, and its parameters."""
    from sfumato.recommend.models import MODELS  # which imports the models made of parts

    if isinstance(described, Estimator):
        kinds = [each for each in MODELS.values() if each.kind is type(described)]
        wanted, given = (kinds[0].name if kinds else None), described.get_params()
    elif isinstance(described, Mapping) and described.keys() == FIELDS:
        wanted, given = described["model"], described["parameters"]
    elif isinstance(described, Mapping):
        given = {key: value for key, value in described.items() if key != "model"}
        wanted = described.get("model", label)
    else:
        wanted, given = described, {}
    if not isinstance(wanted, str) or wanted not in MODELS or not isinstance(given, Mapping):
        raise ParameterError.of(owner, name, f"{WANTED}. There are {', '.join(MODELS)}.")
    if MODELS[wanted].private:
        problem = f"must be models without epsilon, and {wanted} is private: fit it by itself."
        raise ParameterError.of(owner, name, problem)
    return MODELS[wanted], given


def made_part(entry: dict[str, Any]) -> Any:
    """Return an unfitted model of a part in plain form."""
    from sfumato.recommend.models import MODELS

    return MODELS[entry["model"]].kind(**entry["parameters"])


def fit_part(
    entry: dict[str, Any],
    train: Interactions,
    catalogue: Catalogue,
    bounds: tuple[float, float] | None = None,
    **extras: Any,
) -> Any:
    """Fit a part, with those of the extras, as features, that its `fit` takes and that are given.

    A part without bounds gets those of the whole, so that it has them in every subset of the rows.
    """
    model = made_part(entry)
    varied = bounds is not None and bounds[0] < bounds[1]  # equal ratings have no bounds to give
    if varied and "bounds" in model.LIMITS and model.bounds is None:
        model.set_params(bounds=bounds)
    taken = inspect.signature(model.fit).parameters
    given = {key: value for key, value in extras.items() if value is not None and key in taken}
    return model.fit(train, catalogue=catalogue, **given)


def score_pairs(
    model: Any, users: np.ndarray, items: np.ndarray, times: np.ndarray | None = None
) -> np.ndarray:
    """Return the scores of pairs of ids, float64: predictions before they are clipped."""
    if isinstance(model, RatingModel):
        rows, columns = model.users_.positions(users), model.catalogue_.positions(items)
        return model._predicted(rows, columns, times if model.uses_times else None)
    if isinstance(model, Factorization) and not model.uses_times:
        starts = range(0, users.size, PAIRS)
        found = [model._uncut(users[at : at + PAIRS], items[at : at + PAIRS]) for at in starts]
        return np.concatenate([np.zeros(0), *found])
    when = {"times": times} if model.uses_times else {}
    return np.asarray(model.predict(users, items, **when), np.float64)


def score_table(model: Any, users: np.ndarray) -> np.ndarray:
    """Return the scores of all items of the catalogue for these user ids, float64, writeable."""
    if isinstance(model, RatingModel):
        tables = model._tables(model.users_.positions(users))
    elif isinstance(model, HistoryModel):
        tables = model._tables(model.histories_.rows(users))
    elif isinstance(model, Factorization):
        vectors = model._in_blocks(model._user_vectors, users)
        offsets = model._common_score + vectors[:, -1:].astype(np.float64)
        vectors[:, -1] = 1  # beside the items' biases
        return np.asarray(model._vectors_for("scores").every(vectors) + offsets)
    else:
        items, scores = model.recommend(users, len(model.catalogue_))
        return _scattered(model.catalogue_, items, scores, -np.inf)
    out = np.empty((users.size, len(model.catalogue_)))
    for part, table in tables:
        out[part] = table
    return out


def score_fold_in(model: Any, items: np.ndarray, ratings: np.ndarray | None) -> np.ndarray:
    """Return the scores of all items for a new user with these items, float64 of shape (n_items,).

    The items of the user have the mean of the others: no model scores what it leaves out.
    """
    takes = "ratings" in inspect.signature(model.recommend_fold_in).parameters
    given = {"ratings": ratings} if takes else {}
    found, scores = model.recommend_fold_in(items, n=len(model.catalogue_), **given)
    mean = float(scores.mean()) if scores.size else 0.0
    return np.asarray(_scattered(model.catalogue_, found[None], scores[None], mean)[0])


def _scattered(
    catalogue: Catalogue, items: np.ndarray, scores: np.ndarray, missing: float
) -> np.ndarray:
    """Return lists of items as a table over the catalogue."""
    table = np.full((len(items), len(catalogue)), missing)
    for row, ids, values in zip(table, items, scores, strict=True):
        there = values > -np.inf
        row[catalogue.positions(ids[there])] = values[there]
    return table


def part_layout(count: int) -> dict[str, Cells]:
    """The arrays of a file that contain the files of its parts."""
    return {f"part_{at}": Cells(np.uint8, (-1,)) for at in range(count)}


def part_arrays(models: Iterable[Any]) -> dict[str, np.ndarray]:
    """The files of fitted parts as arrays of bytes."""
    return {
        f"part_{at}": np.frombuffer(model.to_bytes(), np.uint8) for at, model in enumerate(models)
    }


LEVEL: ContextVar[int] = ContextVar("level", default=0)


@contextmanager
def _one_level_down() -> Any:
    """Context of a file within a file; ValueError if that is nested too deep."""
    if LEVEL.get() >= NESTED:
        raise ValueError("models of models are nested too deep.")
    token = LEVEL.set(LEVEL.get() + 1)
    try:
        yield
    finally:
        LEVEL.reset(token)


def read_parts(
    entries: list[dict[str, Any]], arrays: dict[str, np.ndarray], catalogue: Catalogue
) -> dict[str, Any]:
    """Read the files of parts; ValueError where one is not what its entry says."""
    models: dict[str, Any] = {}
    for at, entry in enumerate(entries):
        with _one_level_down():
            model = Estimator.from_bytes(arrays[f"part_{at}"].tobytes())
        if type(model) is not type(made_part(entry)) or model.catalogue_ != catalogue:
            raise ValueError(f"part {at} must be a {entry['model']} of the same catalogue.")
        models[entry["name"]] = model
    return models

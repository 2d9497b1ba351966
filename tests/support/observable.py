"""All that can be seen of a release: what it answers, its bytes, and what it holds."""

import inspect
import pickle
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.file_format import pack
from sfumato.sketch import Release, load
from support.sketch_contract import KEYS, ROWS

UNASKED = {
    "update": "refused, see check_cannot_be_changed",
    "merge": "refused, see check_cannot_be_changed",
    "save": "writes a file, see check_bytes_pickle_and_load_keep_everything",
    "copy": "is the release itself, see check_bytes_pickle_and_load_keep_everything",
}
NEEDED = {"heavy_hitters": ["candidates"]}  # no keys are remembered
GIVEN = {
    "keys": KEYS[:20],
    "candidates": KEYS[:50],
    "combine": "median",
    "groups": 3,
    "spread": 9.0,
    "kernel": "gaussian",
    "bandwidth": 25.0,
    "confidence": 0.9,
    "threshold": 0.5,
    "norms": (3.0, 2.0),
    "items": KEYS[:3],
    "prior": [0.1, 0.5, 1.0],
    "rows": [1],
    "n": 2,
    "n_samples": 3,
    "random_state": 0,
    "metric": "jaccard",
    "ranking": "population",
    "points": ROWS[:20],
    "inside": ROWS[:20].clip(-3, 3),
    "weights": [2] * 20,
    "fraction": 0.1,
}

COUNTS = {"profile_epsilon": {"items": 3}}  # a number of items, not a column


def repacked(
    release: Release, arrays: dict[str, np.ndarray] | None = None, **statement: Any
) -> bytes:
    """Bytes with a fitting checksum: this release, but for these arrays and words it states."""
    header = {
        "kind": type(release).__name__,
        "version": release.version,
        "parameters": release.parameters,
        "state": {"statement": {**release.statement.to_dict(), **statement}},
    }
    return pack(header, {**release._arrays(), **(arrays or {})})


def public(kind: type[Release]) -> Iterator[str]:
    """The names of the queries of a kind of release: its methods and properties."""
    for name, member in inspect.getmembers(kind):
        queries = inspect.isfunction(member) or isinstance(member, property | cached_property)
        if hasattr(member, "__deprecated__"):  # an alias of another name
            continue
        if queries and not name.startswith("_") and name not in UNASKED:
            yield name


def use(release: Release) -> Iterator[Any]:
    """What a release answers to every query, about itself and about another one.

    Nothing is caught: a question that is not answered fails, and so does a parameter that has no
    value here.
    """
    another = load(repacked(release, dataset="another"))
    for name in public(type(release)):
        queries = getattr(release, name)
        if not callable(queries):
            yield name, queries
            continue
        takes = inspect.signature(queries).parameters
        needed = [n for n, each in takes.items() if each.default is each.empty]
        for names in (list(takes), needed + NEEDED.get(name, [])):
            for other in (release, another):
                known = {**GIVEN, "other": other, "among": other}
                known["queries"] = ROWS[:20, : getattr(release, "dimension", 12)]
                known |= {"users": getattr(release, "users_", None), **COUNTS.get(name, {})}
                yield name, queries(**{each: known[each] for each in names})


def outside(release: Release) -> tuple[bytes, bytes, str]:
    """All that can be seen of a release, at once: a later query might know more."""
    return release.to_bytes(), pickle.dumps(release), repr(list(use(release)))


def leaves(value: Any) -> Any:
    """A value of plain types, arrays and records of them, as one that can be compared."""
    if isinstance(value, dict):
        return {name: leaves(inside) for name, inside in sorted(value.items())}
    if isinstance(value, Release):
        return value.to_bytes()
    if is_dataclass(value):
        return leaves(vars(value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return [leaves(inside) for inside in value]
    assert value is None or type(value) in (str, int, float, bool), type(value)
    return value

"""Sketches by the name of the command line, made from NAME=VALUE settings; sizes such as 1GiB."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import sfumato.sketch
from sfumato.sketch.base import KeyedSketch

__all__ = ["clipping", "kinds", "maker", "rows_of", "size"]

# What a required parameter is when not set: about a MiB of cells, or a vector of a few KiB.
DEFAULTS = {"width": 1 << 16, "bits": 1 << 23, "cells": 1 << 20, "dimensions": 256}
# What else a kind is built with on the command line, so that every command works on its file.
CHOICES = {"CountSketch": {"depth": 5, "combine": "median", "track": 100}}
# What --error or --capacity chooses, by kind; the rest is as --set says.
SIZES = {
    "AMS": ("width", "depth"),
    "BloomFilter": ("bits", "hashes"),
    "CountMin": ("width", "depth"),
    "CountSketch": ("width", "depth"),
    "CountingBloomFilter": ("cells", "hashes"),
    "FeatureHasher": ("dimensions",),
    "HyperLogLog": ("precision",),
    "JohnsonLindenstrauss": ("dimensions",),
    "LpSketch": ("rows",),
    "MinHash": ("permutations",),
    "ScalableBloomFilter": ("capacity", "false_positive_rate"),
}
FALSE_POSITIVES = 0.01  # of a filter of a given capacity, unless --error says otherwise
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def kinds() -> dict[str, type[KeyedSketch]]:
    """The public sketches of a column of keys: CountMin is count-min."""
    public = [getattr(sfumato.sketch, name) for name in sfumato.sketch.__all__]
    keyed = [kind for kind in public if isinstance(kind, type) and issubclass(kind, KeyedSketch)]
    return {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in keyed}


def maker(
    kind: str, settings: list[str], error: float | None = None, capacity: int | None = None
) -> Callable[[], KeyedSketch]:
    """What makes empty sketches of a kind; its parameters are checked here, once."""
    known = kinds()
    if kind not in known:
        raise ValueError(f"the kind of sketch must be one of {', '.join(known)}, not {kind!r}.")
    if error is None and capacity is None:
        parameters = _parameters(known[kind], settings)
        known[kind](**parameters)
    else:
        parameters = _sized(known[kind], settings, error, capacity).parameters
    return lambda: known[kind](**parameters)


def _sized(
    kind: type[KeyedSketch], settings: list[str], error: float | None, capacity: int | None
) -> KeyedSketch:
    """The smallest sketch of a kind for the error wanted, or for a number of keys."""
    others = CHOICES.get(kind.__name__, {}) | _set(kind, settings)
    chosen = {name: value for name, value in others.items() if name not in SIZES[kind.__name__]}
    for setting in settings:
        if setting.partition("=")[0] not in chosen:
            wanted = "--error" if error is not None else "--capacity"
            raise ValueError(
                f"{kind.__name__}: {wanted} chooses what --set {setting} sets; give one."
            )
    if hasattr(kind, "contains"):
        if capacity is None:
            raise ValueError(
                f"{kind.__name__}: --error, the rate of false positives, needs --capacity."
            )
        rate = FALSE_POSITIVES if error is None else error
        if hasattr(kind, "from_capacity"):
            return cast(KeyedSketch, kind.from_capacity(capacity, rate, **chosen))
        return kind(capacity=capacity, false_positive_rate=rate, **chosen)  # type: ignore[call-arg]
    if error is None:
        raise ValueError(f"{kind.__name__}: takes no --capacity; --error sizes it for any number.")
    return cast(KeyedSketch, kind.from_error(error, **chosen))  # type: ignore[attr-defined]


def clipping(sketch: Any, column: str, weights: str | None, clip: int) -> Callable[[Any, Any], Any]:
    """What adds a batch of keys with its weights clipped to a public bound."""
    kind = type(sketch).__name__
    if weights is None:
        raise ValueError("--clip bounds weights; name their column with --weights.")
    if "clip" not in inspect.signature(sketch.update).parameters:
        raise ValueError(f"{kind}: takes no --clip; leave it out.")
    sketch.update([], [], clip=clip)  # the bound is checked before anything is read
    return lambda made, batch: made.update(batch.column(column), batch.column(weights), clip=clip)


def rows_of(files: list[Path], columns: list[str], given: Any) -> Iterator[Any]:
    """Batches of these columns of files, read row by row; what is no row is in none."""
    import pyarrow as pa

    from sfumato.core.hashing import canonical_key
    from sfumato.data.tables import read_one_by_one

    for file in files:
        for cells in read_one_by_one(file, columns, given):
            texts = [[canonical_key(cell) or None for cell in column] for column in cells]
            yield pa.record_batch([pa.array(each, pa.large_binary()) for each in texts], columns)


def size(written: str) -> int:
    """Bytes, from a number with or without a unit: 500MB, 1GiB."""
    parts = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", written.strip().lower())
    unit = {**UNITS, **BINARY}.get(parts[2]) if parts else None
    if parts is None or unit is None:
        raise ValueError(f"--memory-limit must be a size such as 500MB or 1GiB, not {written!r}.")
    return int(float(parts[1]) * unit)


def _parameters(kind: type[KeyedSketch], settings: list[str]) -> dict[str, Any]:
    signature = inspect.signature(kind).parameters.values()
    needed = [each.name for each in signature if each.default is each.empty]
    values: dict[str, Any] = {name: DEFAULTS[name] for name in needed if name in DEFAULTS}
    values |= CHOICES.get(kind.__name__, {}) | _set(kind, settings)
    for name in needed:
        if name not in values:
            raise ValueError(f"{kind.__name__}: needs --set {name}=VALUE.")
    return values


def _set(kind: type[KeyedSketch], settings: list[str]) -> dict[str, Any]:
    """The parameters that --set gives."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, written = setting.partition("=")
        if not equals:
            raise ValueError(f"--set must be NAME=VALUE, not {setting!r}.")
        if name not in kind._limits:
            there = ", ".join(kind._limits)
            raise ValueError(f"{kind.__name__}: has no parameter {name!r}; it has {there}.")
        values[name] = _parsed(kind, name, written)
    return values


def _parsed(kind: type[KeyedSketch], name: str, written: str) -> Any:
    """The first reading of the text, as a number, a truth value or itself, within its limit."""
    readings: list[Any] = [{"true": True, "false": False}.get(written.lower(), written)]
    for number in (float, int):
        try:
            readings.insert(0, number(written))
        except ValueError:
            continue
    for reading in readings:
        try:
            return kind._limits[name].check(kind.__name__, name, reading)
        except ValueError:
            continue
    return kind._limits[name].check(kind.__name__, name, readings[0])

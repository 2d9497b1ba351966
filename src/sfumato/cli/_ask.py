"""What a sketch answers on the command line: about keys, about all of them, the heaviest ones."""

import inspect
from typing import Any

__all__ = ["about", "compared", "heaviest", "overall"]


def about(sketch: Any, keys: list[str]) -> list[dict[str, Any]]:
    """One row for each key: its estimate, or whether the sketch contains it."""
    _refuse_points(sketch)
    ask = getattr(sketch, "contains", None) or getattr(sketch, "estimate", None)
    if ask is None or not inspect.signature(ask).parameters:
        raise ValueError(f"{_name(sketch)}: cannot be asked about a key; give none.")
    answers = ask(keys)
    label = "contains" if answers.dtype == bool else "estimate"
    return [{"key": key, label: answer} for key, answer in zip(keys, answers.tolist(), strict=True)]


def overall(sketch: Any) -> float:
    """The one number a sketch tells about all its keys: how many, or the norm of their weights."""
    _refuse_points(sketch)
    for verb in ("estimate", "estimate_size", "norm"):
        ask = getattr(sketch, verb, None)
        if ask is not None and not inspect.signature(ask).parameters:
            return float(ask())
    raise ValueError(f"{_name(sketch)}: answers about keys; give one or more after the file.")


def compared(left: Any, right: Any) -> dict[str, Any]:
    """What two sketches of one kind say about each other: similarity, inner product, distance."""
    _refuse_points(left)
    found = {
        verb: float(getattr(left, verb)(right))
        for verb in ("similarity", "inner", "distance")
        if hasattr(left, verb)
    }
    if not found:
        raise ValueError(f"{_name(left)}: two of them cannot be compared.")
    return found


def heaviest(sketch: Any, k: int, among: list[str] | None = None) -> list[dict[str, Any]]:
    """The k heaviest keys that the sketch tracked, or among those listed, heaviest first."""
    _refuse_points(sketch)
    if among is not None and not hasattr(sketch, "heavy_hitters"):
        found = about(sketch, among)
        return sorted(found, key=lambda row: -row.get("estimate", 0))[:k]
    if not hasattr(sketch, "heavy_hitters"):
        raise ValueError(
            f"{_name(sketch)}: does not know its heaviest keys; build a count-sketch with "
            "--set track=100."
        )
    keys, estimates = sketch.heavy_hitters(k, among)
    return [
        {"key": _readable(key), "estimate": float(estimate)}
        for key, estimate in zip(keys, estimates, strict=True)
    ]


def _refuse_points(sketch: Any) -> None:
    """What was learned from points knows no keys."""
    if hasattr(sketch, "mean") or hasattr(sketch, "matrix"):
        told = "the release of it" if not hasattr(sketch, "statement") else "it"
        raise ValueError(
            f"{_name(sketch)}: answers about points, not keys; ask {told} with sfumato density "
            "query, or from Python."
        )


def _readable(key: Any) -> int | str | None:
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return key if key is None or isinstance(key, str) else int(key)


def _name(sketch: Any) -> str:
    return type(sketch).__name__

"""The public list of classes: plain numbers or texts, sorted, none twice."""

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["LABELS", "labels_of", "places_of", "refuse_missing"]


class _Labels:
    """Classes as a tuple of plain numbers or texts."""

    def check(self, owner: str, name: str, value: Any) -> tuple[Any, ...]:
        wanted = f"{owner}: {name} must be a list of classes, whole numbers or texts, none twice"
        if isinstance(value, str | bytes) or not np.iterable(value):
            raise ValueError(f"{wanted}, not {value!r}.")
        given = [one.item() if isinstance(one, np.generic) else one for one in value]
        plain = all(isinstance(one, bool | int | float | str) and one == one for one in given)
        if not given or not plain or len({type(one) for one in given}) > 1:
            raise ValueError(f"{wanted}, all of one type.")
        if len(set(given)) < len(given):
            raise ValueError(f"{wanted}.")
        return tuple(sorted(given))

    def bad(self) -> list[Any]:
        return ["ab", 3, [], [1, 1], [1, "a"], [float("nan")], [[1]]]


LABELS = _Labels()


def labels_of(classes: np.ndarray) -> tuple[Any, ...]:
    """Sorted classes as plain values; texts of any other kind as they print."""
    return tuple(np.asarray(classes).tolist())


def refuse_missing(owner: str, y: Any) -> None:
    """Raise where a row has no label: None, NaN or a null of pandas or Arrow."""
    try:
        told = pa.array(y, from_pandas=True).is_null(nan_is_null=True)
    except (pa.ArrowException, TypeError, ValueError):
        return  # no column of one type, which is refused elsewhere
    missing = np.asarray(told)
    if missing.any():
        raise ValueError(
            f"{owner}: y must hold a label in every row; row {int(missing.argmax())} holds NaN or "
            "none. Drop such rows or give them a label first."
        )


def places_of(owner: str, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of every row's class in the list."""
    places = np.searchsorted(classes, y)
    known = places < len(classes)
    known[known] = classes[places[known]] == y[known]
    if not known.all():
        raise ValueError(
            f"{owner}: y holds a label that is not in classes, at row {int(known.argmin())}; name "
            "all of them, or drop such rows first."
        )
    return np.asarray(places)

"""The public list of classes: plain numbers or texts, sorted, none twice."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.data._by_row import cells_of, number_of, numbers_of

__all__ = ["LABELS", "labels_of", "listed_places", "places_of", "refuse_missing"]


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


def listed_places(owner: str, y: Any, classes: tuple[Any, ...]) -> np.ndarray:
    """The place of every row's class in the public list, -1 where it is not in it: none is refused.

    Guarantee: a place depends on that label alone, and not on the type that a container gives to
    all labels because of one: 7, 7.0, "7" and "7.0" are one class, be it listed as number or text.
    Where the list itself tells such texts apart ("1" and "01"), labels are taken as they are
    written. Parameters: owner, whom errors name; y, a column; classes, sorted, of one type.

    >>> listed_places("example", ["b", None, "guest", "a"], ("a", "b")).tolist()
    [1, -1, -1, 0]
    """
    numbers = np.array([number_of(label) for label in classes])
    if isinstance(classes[0], str):
        return _by_text(cells_of(y), classes, numbers)
    if len(set(numbers.tolist())) < len(classes):
        raise ValueError(f"{owner}: classes must be numbers that differ as floats.")
    found = numbers_of(y)
    places = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
    return np.where(numbers[places] == found, places, -1)


def _by_text(cells: list[Any], classes: tuple[Any, ...], numbers: np.ndarray) -> np.ndarray:
    texts = {label: place for place, label in enumerate(classes)}
    finite = [number for number in numbers.tolist() if np.isfinite(number)]
    valued = {number: place for place, number in enumerate(numbers.tolist())}
    valued = valued if len(set(finite)) == len(finite) else {}
    known: dict[str, int] = {}

    def place(cell: Any) -> int:
        if type(cell) is not str:
            return _place(cell, texts, valued)
        if cell not in known:
            known[cell] = _place(cell, texts, valued)
        return known[cell]

    return np.fromiter(map(place, cells), np.int64, len(cells))


def _place(cell: Any, texts: dict[Any, int], valued: dict[float, int]) -> int:
    """As it is written, else by its value, else as a whole number is written."""
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    if isinstance(text, str) and text in texts:
        return texts[text]
    number = number_of(cell)
    if not np.isfinite(number):
        return -1
    whole = str(int(number)) if number == int(number) else ""
    return valued.get(number, texts.get(whole, -1))


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

"""What is asked of a model, and how it is answered: ids of the right kind, lists cut or filled."""

from typing import Any

import numpy as np

from sfumato.kernels import largest
from sfumato.recommend._catalogue import Catalogue
from sfumato.recommend._ranking import Seen
from sfumato.sketch._ids import ids_of, is_one, kind_of

__all__ = ["barred", "beside", "best", "fitting", "listing", "pairs"]


def fitting(owner: str, name: str, ids: Any, kind: str) -> np.ndarray:
    """A column of ids of the kind that the model knows; none of another could be found."""
    column = ids_of(ids, name)
    if column.size and kind_of(column) != kind:
        raise TypeError(f"{owner}: {name} are {kind_of(column)}, but the model knows {kind}.")
    return column


def pairs(
    owner: str, users: Any, items: Any, kinds: tuple[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of users and of the items beside them; one single id stands for a whole column."""
    who, what = fitting(owner, "users", users, kinds[0]), fitting(owner, "items", items, kinds[1])
    return beside(owner, users, items, who, what)


def beside(
    owner: str, users: Any, items: Any, who: np.ndarray, what: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The columns that users and items, as they were given, stand for: of one length."""
    if is_one(users):
        who = np.repeat(who, what.size)
    elif is_one(items):
        what = np.repeat(what, who.size)
    if who.size != what.size:
        raise ValueError(
            f"{owner}: users and items must be of one length, not {who.size} and {what.size}."
        )
    return who, what


def barred(
    scores: np.ndarray, allowed: np.ndarray | None, seen: Seen | None, part: slice
) -> np.ndarray:
    """The scores of these queries, -inf for what is filtered out or was seen; they are changed."""
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    if seen is not None:
        rows = seen.rows[part]
        starts = seen.starts[np.maximum(rows, 0)]
        counts = np.where(rows >= 0, seen.starts[np.maximum(rows, 0) + 1] - starts, 0)
        # Places from each start on: numbers in a row, less where the row's own begin.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = seen.places[np.repeat(starts, counts) + within]
        scores[np.repeat(np.arange(rows.size), counts), places] = -np.inf
    return scores


def best(scores: np.ndarray, n: int, least: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Places and scores of the n largest of each row, not below the least; -1 and -inf for none."""
    places = np.full((len(scores), n), -1, np.int64)
    found = np.full((len(scores), n), -np.inf)
    largest.largest(scores, places, found)
    if least is not None:
        places[found < least], found[found < least] = -1, -np.inf
    return places, found


def listing(
    ids: Catalogue, places: np.ndarray, scores: np.ndarray, one: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and scores; those of one single id are cut to what there is."""
    if one:
        left = places[0] >= 0
        return ids.take(places[0][left]), scores[0][left]
    return ids.take(places), scores

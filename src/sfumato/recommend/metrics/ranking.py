"""How good ranked lists are: each metric a mean over users, computed on whole arrays.

All take the same parameters. recommended: items, users x places, best first, no item twice in a
row. relevant: the items that were right, a pair of columns (row of recommended, item), or
Interactions together with `users`, the user of each row; a pair told twice counts once, users who
have no list are left out. scores: the scores of the items, whose -inf says that a place is empty,
or a mask of the places that are not; without it a place is empty if its item is -1 or None, with
which `recommend` fills lists (where -1 is an item of the catalogue, give scores).
A user without a relevant item is left out of every mean, since nothing could be right; one with
relevant items and an empty list counts 0. Where no user is left the answer is NaN.

Recommended lists beside the items that were right: which places hit, for all users at once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.typing import Column, Ids, Matrix
from sfumato.data import as_ids

__all__ = [
    "Lists",
    "as_column",
    "average_precision",
    "filled",
    "hit_rate",
    "listed_column",
    "map_at_k",
    "matched",
    "mrr",
    "ndcg",
    "precision",
    "ranked",
    "recall",
]


@dataclass(frozen=True)
class Lists:
    """Where lists hit: arrays of users x places, and of users.

    hit and filled: True where the item was right, and where there is an item at all; gains: the
    worth of each hit, else 0; relevant: how many items were right; best: the gains that were there
    to be had, users x places, largest first.
    """

    hit: np.ndarray
    filled: np.ndarray
    gains: np.ndarray
    relevant: np.ndarray
    best: np.ndarray

    def mean(self, values: np.ndarray) -> float:
        """The mean over the users that had a relevant item; NaN where there was none."""
        counted = self.relevant > 0
        return float(values[counted].mean()) if counted.any() else float("nan")


def matched(
    owner: str,
    recommended: Any,
    relevant: Any,
    users: Any = None,
    scores: Any = None,
    gains: Any = None,
) -> Lists:
    """The lists beside what was relevant; each parameter as the metrics say."""
    told = filled(owner, recommended, scores)
    rows, items = _pairs(owner, relevant, users, told.shape[0])
    worth = None if gains is None else _worth(owner, gains, len(items))
    known = rows >= 0
    codes, wanted, distinct = _coded(owner, recommended, items, told)
    _refuse_repeats(owner, codes, told)
    keys = np.arange(told.shape[0])[:, None] * distinct + codes
    right = rows[known] * distinct + wanted[known]
    right, worth = (_once(right), None) if worth is None else _dearest(right, worth[known])
    place = np.searchsorted(right, keys.reshape(-1)).reshape(keys.shape)
    place[place == right.size] = 0
    hit = told & (right[place] == keys) if right.size else np.zeros_like(told)
    of = right // distinct
    relevant_items = np.bincount(of, minlength=told.shape[0])
    if worth is None or not right.size:
        best = np.arange(told.shape[1]) < relevant_items[:, None]
        return Lists(hit, told, hit, relevant_items, best)
    won = np.where(hit, worth[place], 0.0)
    return Lists(hit, told, won, relevant_items, _best(of, worth, told.shape))


def filled(owner: str, recommended: Any, scores: Any) -> np.ndarray:
    """The mask of the places that hold an item: whose score is above -inf, whatever its id.

    Without scores, those whose id is not that of no item, -1 or None, with which `recommend` fills,
    nor "", with which it filled before. None is never an item.
    """
    shape = np.shape(recommended)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{owner}: recommended must be an array of users x places, neither of them 0, not of "
            f"shape {shape}; one user's list is a row of its own: items[None]."
        )
    ids = np.asarray(recommended)
    there = np.asarray(ids != np.array(None) if ids.dtype == object else True, np.bool_)
    if scores is None:
        return np.asarray((ids != (-1 if ids.dtype.kind in "iu" else "")) & there)
    told = np.asarray(scores)
    if told.shape != shape:
        raise ValueError(f"{owner}: scores must have the shape of recommended, {shape}.")
    if told.dtype == np.bool_:
        return told & there
    if np.isnan(told).any():
        raise ValueError(f"{owner}: scores must not be NaN; -inf says that there is no item.")
    return np.asarray((told > -np.inf) & there)


def as_column(owner: str, ids: Any, name: str) -> pa.Array:
    """Ids of any shape as one Arrow column of int64 or of texts."""
    flat = ids.reshape(-1) if isinstance(ids, np.ndarray) else ids
    column = as_ids(flat, f"{owner}: {name}")
    return pa.array(column) if isinstance(column, np.ndarray) else column.combine_chunks()


def listed_column(owner: str, recommended: Any, told: np.ndarray, like: pa.Array) -> pa.Array:
    """The listed items as one Arrow column; an empty place holds some id, whichever.

    Parameters: told, the mask of the places that hold an item; like, ids of the same kind.
    """
    ids = np.asarray(recommended)
    if ids.dtype == object and not told.all():
        some = ids[told][0] if told.any() else like[0].as_py() if len(like) else ""
        ids = np.where(told, ids, some)
    return as_column(owner, ids, "recommended")


def _pairs(owner: str, relevant: Any, users: Any, size: int) -> tuple[np.ndarray, pa.Array]:
    """The row of recommended (-1 for a user who has none) and the item of each relevant pair."""
    if not hasattr(relevant, "items") or not hasattr(relevant, "users"):
        rows, items = relevant
        rows = np.asarray(rows)
        if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= size):
            raise ValueError(
                f"{owner}: the rows of relevant must be integers from 0 to {size - 1}."
            )
        items = as_column(owner, items, "items")
        if rows.shape != (len(items),):
            raise ValueError(f"{owner}: relevant must have one row for each of its items.")
        return rows.astype(np.int64), items
    if users is None:
        raise ValueError(f"{owner}: users must be given with interactions: whose list is whose.")
    listed = as_column(owner, users, "users")
    if len(listed) != size or pc.count_distinct(listed).as_py() != size:
        raise ValueError(f"{owner}: users must be {size} different ids, one for each list.")
    asked = as_column(owner, relevant.users, "users")
    _same_kind(owner, "users", listed, asked)
    rows = pc.index_in(asked, value_set=listed).fill_null(-1)
    return rows.to_numpy().astype(np.int64), as_column(owner, relevant.items, "items")


def _same_kind(owner: str, name: str, one: pa.Array, other: pa.Array) -> None:
    if len(one) and len(other) and one.type != other.type:
        raise TypeError(f"{owner}: {name} must be integers in both, or texts in both.")


def _worth(owner: str, gains: Any, size: int) -> np.ndarray:
    worth = np.asarray(gains, np.float64)
    if worth.shape != (size,) or not (np.isfinite(worth) & (worth >= 0)).all():
        raise ValueError(f"{owner}: gains must be one finite number from 0 up a relevant item.")
    return worth


def _coded(
    owner: str, recommended: Any, items: pa.Array, told: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Both sets of items as numbers, the same for the same item, and how many there are."""
    lists = listed_column(owner, recommended, told, items)
    _same_kind(owner, "items", lists, items)
    both = pa.chunked_array([lists, items.cast(lists.type)]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    first = codes[: len(lists)].reshape(np.shape(recommended))
    return first, codes[len(lists) :], len(both.dictionary)


def _refuse_repeats(owner: str, codes: np.ndarray, told: np.ndarray) -> None:
    """An item that is listed twice would be found twice."""
    positions = np.arange(codes.shape[1])
    ordered = np.sort(np.where(told, codes, -1 - positions), axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if again.any():
        row = int(np.flatnonzero(again)[0])
        raise ValueError(f"{owner}: recommended must not repeat an item in a list, as row {row}.")


def _once(keys: np.ndarray) -> np.ndarray:
    """The keys in order, each once."""
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _dearest(keys: np.ndarray, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys in order, each once, with its largest worth."""
    order = np.argsort(keys, kind="stable")
    keys, worth = keys[order], worth[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.maximum.reduceat(worth, starts) if starts.size else worth


def _best(of: np.ndarray, worth: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The largest gains of each user, in order, as many as there are places."""
    order = np.lexsort((-worth, of))
    of, worth = of[order], worth[order]
    rank = np.arange(of.size) - np.searchsorted(of, of)
    best = np.zeros(shape)
    fits = rank < shape[1]
    best[of[fits], rank[fits]] = worth[fits]
    return best


def precision(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """The share of the items of a list that were right; empty places are not counted.

    Thesis (2.3).

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        The share of the items of a list that were right; empty places are not counted.

    Examples
    --------
    >>> precision([[1, 2], [3, 4]], ([0, 1, 1], [2, 3, 4]))
    0.75
    """
    return _precision(matched("precision", recommended, relevant, users, scores))


def recall(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """The share of the right items that are in the list.

    Thesis (2.4).

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        The share of the right items that are in the list.

    Examples
    --------
    >>> recall([[1, 2], [3, 4]], ([0, 0, 1], [2, 9, 3]))
    0.75
    """
    return _recall(matched("recall", recommended, relevant, users, scores))


def map_at_k(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """The mean of precision(k) over all k from 1 to K, the number of places.

    This is the thesis' mAP@K. The usual one, `average_precision`, takes the precision only at the
    places that hit and divides by how many could have. Here a list of K whose only right item is
    the one that there was scores (1 + 1/2 + ... + 1/K) / K if it comes first, there it scores 1. An
    empty place counts as a wrong item.

    Thesis (2.5).

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        The mean of precision(k) over all k from 1 to K, the number of places.

    Examples
    --------
    >>> map_at_k([[1, 2]], ([0], [1])), average_precision([[1, 2]], ([0], [1]))
    (0.75, 1.0)
    """
    return _map_at_k(matched("map_at_k", recommended, relevant, users, scores))


def average_precision(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """The mean over right items of the precision at their places; those not listed add 0.

    Divided by the right items, or by the places where these are fewer, so that 1 can be reached.
    `map_at_k` says how the thesis' mean differs.

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        The mean over right items of the precision at their places; those not listed add 0.

    Examples
    --------
    >>> average_precision([[1, 2, 3]], ([0, 0], [1, 3]))
    0.8333333333333333
    """
    return _average_precision(matched("average_precision", recommended, relevant, users, scores))


def ndcg(
    recommended: Column,
    relevant: Column,
    *,
    users: Ids | None = None,
    scores: Matrix | None = None,
    gains: Any = None,
) -> float:
    """Gains of the right items, each over log2(1 + place), as a share of the most there can be.

    gains: what each relevant pair is worth, from 0 up (a rating, for example); 1 unless told. A
    user all of whose gains are 0 counts 0.

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.
    gains : object, default=None
        TODO.

    Returns
    -------
    float
        TODO.

    References
    ----------
    .. [1] Jarvelin and Kekalainen 2002, with the gains as they are.

    Examples
    --------
    >>> round(ndcg([[1, 2]], ([0], [2])), 4)
    0.6309
    """
    return _ndcg(matched("ndcg", recommended, relevant, users, scores, gains))


def mrr(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """One over the place of the first right item, 0 where there is none.

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        One over the place of the first right item, 0 where there is none.

    Examples
    --------
    >>> mrr([[1, 2], [3, 4]], ([0, 1], [2, 3]))
    0.75
    """
    return _mrr(matched("mrr", recommended, relevant, users, scores))


def hit_rate(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """The share of users with at least one right item in their list.

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    float
        The share of users with at least one right item in their list.

    Examples
    --------
    >>> hit_rate([[1, 2], [3, 4]], ([0, 1], [2, 9]))
    0.5
    """
    return _hit_rate(matched("hit_rate", recommended, relevant, users, scores))


def ranked(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> dict[str, float]:
    """All of these at once, for the work of one, and `users`, how many the means are over.

    Parameters
    ----------
    recommended : array_like
        TODO.
    relevant : array_like
        TODO.
    users : array_like, scalar or None, default=None
        TODO.
    scores : array_like or None, default=None
        TODO.

    Returns
    -------
    dict
        All of these at once, for the work of one, and `users`, how many the means are over.

    Examples
    --------
    >>> ranked([[1, 2]], ([0], [1]))["mrr"]
    1.0
    """
    lists = matched("ranked", recommended, relevant, users, scores)
    return {
        "precision": _precision(lists),
        "recall": _recall(lists),
        "map_at_k": _map_at_k(lists),
        "average_precision": _average_precision(lists),
        "ndcg": _ndcg(lists),
        "mrr": _mrr(lists),
        "hit_rate": _hit_rate(lists),
        "users": int((lists.relevant > 0).sum()),
    }


def _precision(lists: Lists) -> float:
    return lists.mean(lists.hit.sum(axis=1) / np.maximum(lists.filled.sum(axis=1), 1))


def _recall(lists: Lists) -> float:
    return lists.mean(lists.hit.sum(axis=1) / np.maximum(lists.relevant, 1))


def _at_each_place(lists: Lists) -> np.ndarray:
    """precision(k), users x k."""
    return np.asarray(np.cumsum(lists.hit, axis=1) / np.arange(1, lists.hit.shape[1] + 1))


def _map_at_k(lists: Lists) -> float:
    return lists.mean(_at_each_place(lists).mean(axis=1))


def _average_precision(lists: Lists) -> float:
    most = np.clip(lists.relevant, 1, lists.hit.shape[1])
    return lists.mean((_at_each_place(lists) * lists.hit).sum(axis=1) / most)


def _ndcg(lists: Lists) -> float:
    discounts = 1 / np.log2(np.arange(2, lists.hit.shape[1] + 2))
    told, most = lists.gains @ discounts, lists.best @ discounts
    return lists.mean(told / np.where(most > 0, most, 1.0))


def _mrr(lists: Lists) -> float:
    first = np.argmax(lists.hit, axis=1)
    return lists.mean(lists.hit.any(axis=1) / (first + 1.0))


def _hit_rate(lists: Lists) -> float:
    return lists.mean(lists.hit.max(axis=1))

"""Metrics of ranked lists, each a mean over users, computed on entire arrays.

All metrics take the same parameters. A user without a relevant item is left out of every mean,
since nothing could be found; a user with relevant items and an empty list counts 0. If no user
remains, the result is NaN. Where -1 is the id of an item, `scores` must be given: without it, -1
and None mean an empty slot, as in the lists of `recommend`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.typing import Column, Ids, Matrix
from sfumato.data import as_ids

__all__ = [
    "PER_USER",
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
    """Hits of recommended lists: arrays of shape (users, n), and of shape (users,).

    hit: whether the item is relevant; filled: whether there is an item; gains: the gain of each
    hit, else 0; relevant: number of relevant items; best: the gains of an ideal list, largest
    first.
    """

    hit: np.ndarray
    filled: np.ndarray
    gains: np.ndarray
    relevant: np.ndarray
    best: np.ndarray

    def first(self, n: int) -> "Lists":
        """Return the same lists, cut after their first n items."""
        return Lists(
            self.hit[:, :n], self.filled[:, :n], self.gains[:, :n], self.relevant, self.best[:, :n]
        )

    def mean(self, values: np.ndarray) -> float:
        """Return the mean over users with a relevant item; NaN if there is none."""
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
    """Compare lists with the relevant items; the parameters are those of the metrics."""
    mask = filled(owner, recommended, scores)
    rows, items = _pairs(owner, relevant, users, mask.shape[0])
    worth = None if gains is None else _worth(owner, gains, len(items))
    known = rows >= 0
    codes, wanted, distinct = _coded(owner, recommended, items, mask)
    _refuse_repeats(owner, codes, mask)
    keys = np.arange(mask.shape[0])[:, None] * distinct + codes
    right = rows[known] * distinct + wanted[known]
    right, worth = (_once(right), None) if worth is None else _largest(right, worth[known])
    slot = np.searchsorted(right, keys.reshape(-1)).reshape(keys.shape)
    slot[slot == right.size] = 0
    hit = mask & (right[slot] == keys) if right.size else np.zeros_like(mask)
    of = right // distinct
    relevant_items = np.bincount(of, minlength=mask.shape[0])
    if worth is None or not right.size:
        best = np.arange(mask.shape[1]) < relevant_items[:, None]
        return Lists(hit, mask, hit, relevant_items, best)
    won = np.where(hit, worth[slot], 0.0)
    return Lists(hit, mask, won, relevant_items, _best(of, worth, mask.shape))


def filled(owner: str, recommended: Any, scores: Any) -> np.ndarray:
    """Return the mask of slots that contain an item: those with a score above -inf.

    Without scores, a slot is empty if its id is -1 or None, or "" as in earlier versions. None is
    never an item.
    """
    shape = np.shape(recommended)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{owner}: recommended must be an array of users x items, neither of them 0, not of "
            f"shape {shape}; one user's list is a row of its own: items[None]."
        )
    ids = np.asarray(recommended)
    there = np.asarray(ids != np.array(None) if ids.dtype == object else True, np.bool_)
    if scores is None:
        return np.asarray((ids != (-1 if ids.dtype.kind in "iu" else "")) & there)
    given = np.asarray(scores)
    if given.shape != shape:
        raise ValueError(f"{owner}: scores must have the shape of recommended, {shape}.")
    if given.dtype == np.bool_:
        return given & there
    if np.isnan(given).any():
        raise ValueError(f"{owner}: scores must not be NaN; -inf says that there is no item.")
    return np.asarray((given > -np.inf) & there)


def as_column(owner: str, ids: Any, name: str) -> pa.Array:
    """Return ids of any shape as one Arrow column of int64 or texts."""
    flat = ids.reshape(-1) if isinstance(ids, np.ndarray) else ids
    column = as_ids(flat, f"{owner}: {name}")
    return pa.array(column) if isinstance(column, np.ndarray) else column.combine_chunks()


def listed_column(owner: str, recommended: Any, mask: np.ndarray, like: pa.Array) -> pa.Array:
    """Return the recommended items as one Arrow column, empty slots filled with an arbitrary id.

    `mask` marks the slots that contain an item; `like` has ids of the same kind.
    """
    ids = np.asarray(recommended)
    if ids.dtype == object and not mask.all():
        some = ids[mask][0] if mask.any() else like[0].as_py() if len(like) else ""
        ids = np.where(mask, ids, some)
    return as_column(owner, ids, "recommended")


def _pairs(owner: str, relevant: Any, users: Any, size: int) -> tuple[np.ndarray, pa.Array]:
    """Return the row of `recommended` (-1 for a user without a list) and the item of each pair."""
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
    wanted = as_column(owner, relevant.users, "users")
    _same_kind(owner, "users", listed, wanted)
    rows = pc.index_in(wanted, value_set=listed).fill_null(-1)
    return rows.to_numpy().astype(np.int64), as_column(owner, relevant.items, "items")


def _same_kind(owner: str, name: str, one: pa.Array, other: pa.Array) -> None:
    """Raise TypeError if one column has integers and the other texts."""
    if len(one) and len(other) and one.type != other.type:
        raise TypeError(f"{owner}: {name} must be integers in both, or texts in both.")


def _worth(owner: str, gains: Any, size: int) -> np.ndarray:
    """Return the gains as float64; raise unless there is one per relevant item, all from 0."""
    worth = np.asarray(gains, np.float64)
    if worth.shape != (size,) or not (np.isfinite(worth) & (worth >= 0)).all():
        raise ValueError(f"{owner}: gains must be one finite number from 0 up per relevant item.")
    return worth


def _coded(
    owner: str, recommended: Any, items: pa.Array, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return recommended and relevant items as codes of one dictionary, and its size."""
    lists = listed_column(owner, recommended, mask, items)
    _same_kind(owner, "items", lists, items)
    both = pa.chunked_array([lists, items.cast(lists.type)]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    first = codes[: len(lists)].reshape(np.shape(recommended))
    return first, codes[len(lists) :], len(both.dictionary)


def _refuse_repeats(owner: str, codes: np.ndarray, mask: np.ndarray) -> None:
    """Raise ValueError if a list contains an item twice, which would count twice."""
    positions = np.arange(codes.shape[1])
    ordered = np.sort(np.where(mask, codes, -1 - positions), axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if again.any():
        row = int(np.flatnonzero(again)[0])
        raise ValueError(f"{owner}: recommended must not repeat an item in a list, as row {row}.")


def _once(keys: np.ndarray) -> np.ndarray:
    """Return the distinct keys, sorted."""
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _largest(keys: np.ndarray, worth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys, sorted, each with its largest gain."""
    order = np.argsort(keys, kind="stable")
    keys, worth = keys[order], worth[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.maximum.reduceat(worth, starts) if starts.size else worth


def _best(of: np.ndarray, worth: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the largest gains of each user in descending order, as many as a list has slots."""
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
    """Compute the mean precision of the lists.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Mean over users of the fraction of listed items that are relevant; empty slots do not count.
        Users without relevant items are left out; NaN if none remains.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (2.3) (precision). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> precision([[1, 2], [3, 4]], ([0, 1, 1], [2, 3, 4]))
    0.75
    """
    return _mean("precision", recommended, relevant, users, scores)


def recall(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """Compute the mean recall of the lists.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Mean over users of the fraction of relevant items that are listed. Users without relevant
        items are left out; NaN if none remains.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (2.4) (recall). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> recall([[1, 2], [3, 4]], ([0, 0, 1], [2, 9, 3]))
    0.75
    """
    return _mean("recall", recommended, relevant, users, scores)


def map_at_k(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """Compute the mean of precision(k) over all k up to the length of the list.

    This is the thesis' mAP@K. It differs from the usual `average_precision`, which takes the
    precision only at relevant positions and divides by the number of relevant items: if the only
    relevant item comes first in a list of K, `map_at_k` is (1 + 1/2 + ... + 1/K) / K and
    `average_precision` is 1.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Mean over users of the mean of precision(k), k = 1 to K; an empty slot counts as an
        irrelevant item. Users without relevant items are left out; NaN if none remains.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (2.5) (mAP@K). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> map_at_k([[1, 2]], ([0], [1])), average_precision([[1, 2]], ([0], [1]))
    (0.75, 1.0)
    """
    return _mean("map_at_k", recommended, relevant, users, scores)


def average_precision(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """Compute the mean average precision.

    `map_at_k` describes how the mean of the thesis differs.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Mean over users of the sum of precision(k) at the positions k of relevant items, divided by
        the number of relevant items or, if that is smaller, the length of the list, so that 1 can
        be attained. Users without relevant items are left out; NaN if none remains.

    Examples
    --------
    >>> average_precision([[1, 2, 3]], ([0, 0], [1, 3]))
    0.8333333333333333
    """
    return _mean("average_precision", recommended, relevant, users, scores)


def ndcg(
    recommended: Column,
    relevant: Column,
    *,
    users: Ids | None = None,
    scores: Matrix | None = None,
    gains: Any = None,
) -> float:
    """Compute the mean normalised discounted cumulative gain.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.
    gains : array_like of shape (n_relevant,) or None, default=None
        Gain of each relevant pair, at least 0, for example its rating; None means 1. Of duplicate
        pairs the largest gain counts.

    Returns
    -------
    float
        Mean over users of the sum of `gain / log2(1 + position)`, position from 1, divided by that
        of the ideal list; 0 for a user whose gains are all 0. Users without relevant items are left
        out; NaN if none remains.

    References
    ----------
    .. [1] Järvelin, Kekäläinen. "Cumulated Gain-Based Evaluation of IR Techniques". ACM TOIS 2002,
       with linear gains. https://doi.org/10.1145/582415.582418

    Examples
    --------
    >>> round(ndcg([[1, 2]], ([0], [2])), 4)
    0.6309
    """
    return _mean("ndcg", recommended, relevant, users, scores, gains)


def mrr(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """Compute the mean reciprocal rank of the first relevant item.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Mean over users of 1 / position of the first relevant item, position from 1; 0 if none is
        listed. Users without relevant items are left out; NaN if none remains.

    Examples
    --------
    >>> mrr([[1, 2], [3, 4]], ([0, 1], [2, 3]))
    0.75
    """
    return _mean("mrr", recommended, relevant, users, scores)


def hit_rate(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> float:
    """Compute the fraction of users with at least one relevant item in their list.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Fraction from 0 to 1. Users without relevant items are left out; NaN if none remains.

    Examples
    --------
    >>> hit_rate([[1, 2], [3, 4]], ([0, 1], [2, 9]))
    0.5
    """
    return _mean("hit_rate", recommended, relevant, users, scores)


def ranked(
    recommended: Column, relevant: Column, *, users: Ids | None = None, scores: Matrix | None = None
) -> dict[str, float]:
    """Compute all ranking metrics at once, for the cost of one.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids, best first, without duplicates in a row.
    relevant : array_like of shape (2, n_relevant)
        The relevant items: a pair of columns (row of `recommended`, item id), or else Interactions,
        which need `users`. Duplicate pairs count once; users without a list are ignored.
    users : array_like, scalar or None, default=None
        The user of each row of `recommended`, if `relevant` are Interactions.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    dict
        "precision", "recall", "map_at_k", "average_precision", "ndcg", "mrr", "hit_rate", and
        "users", the number of users in the means (those with a relevant item).

    Examples
    --------
    >>> ranked([[1, 2]], ([0], [1]))["mrr"]
    1.0
    """
    lists = matched("ranked", recommended, relevant, users, scores)
    return {
        **{name: lists.mean(values(lists)) for name, values in PER_USER.items()},
        "users": int((lists.relevant > 0).sum()),
    }


def _mean(name: str, *compared: Any) -> float:
    """Return the mean of a metric over users; the other parameters are those of `matched`."""
    lists = matched(name, *compared)
    return lists.mean(PER_USER[name](lists))


def _precision(lists: Lists) -> np.ndarray:
    return np.asarray(lists.hit.sum(axis=1) / np.maximum(lists.filled.sum(axis=1), 1))


def _recall(lists: Lists) -> np.ndarray:
    return np.asarray(lists.hit.sum(axis=1) / np.maximum(lists.relevant, 1))


def _precision_at_each(lists: Lists) -> np.ndarray:
    """Return the precision of the first k items, of shape (users, n), for k from 1 to n."""
    return np.asarray(np.cumsum(lists.hit, axis=1) / np.arange(1, lists.hit.shape[1] + 1))


def _map_at_k(lists: Lists) -> np.ndarray:
    return np.asarray(_precision_at_each(lists).mean(axis=1))


def _average_precision(lists: Lists) -> np.ndarray:
    most = np.clip(lists.relevant, 1, lists.hit.shape[1])
    return np.asarray((_precision_at_each(lists) * lists.hit).sum(axis=1) / most)


def _ndcg(lists: Lists) -> np.ndarray:
    discounts = 1 / np.log2(np.arange(2, lists.hit.shape[1] + 2))
    gained, possible = lists.gains @ discounts, lists.best @ discounts
    return np.asarray(gained / np.where(possible > 0, possible, 1.0))


def _mrr(lists: Lists) -> np.ndarray:
    first = np.argmax(lists.hit, axis=1)
    return np.asarray(lists.hit.any(axis=1) / (first + 1.0))


def _hit_rate(lists: Lists) -> np.ndarray:
    return np.asarray(lists.hit.any(axis=1), np.float64)


# The value of each user by metric; only those of users with a relevant item mean something.
PER_USER: dict[str, Callable[[Lists], np.ndarray]] = {
    "precision": _precision,
    "recall": _recall,
    "map_at_k": _map_at_k,
    "average_precision": _average_precision,
    "ndcg": _ndcg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
}

"""How good ranked lists are: each metric a mean over users, computed on whole arrays.

All take the same parameters. recommended: items, users x places, best first, no item twice in a
row. relevant: the items that were right, a pair of columns (row of recommended, item), or
Interactions together with `users`, the user of each row; a pair told twice counts once, users who
have no list are left out. scores: the scores of the items, whose -inf says that a place is empty,
or a mask of the places that are not; without it a place is empty if its item is -1 or "", with
which `recommend` fills lists (where that is an item of the catalogue, give scores).
A user without a relevant item is left out of every mean, since nothing could be right; one with
relevant items and an empty list counts 0. Where no user is left the answer is NaN.
"""

from typing import Any

import numpy as np

from sfumato.recommend._lists import Lists, matched

__all__ = [
    "average_precision",
    "hit_rate",
    "map_at_k",
    "mrr",
    "ndcg",
    "precision",
    "ranked",
    "recall",
]


def precision(recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None) -> float:
    """The share of the items of a list that were right; empty places are not counted.

    >>> precision([[1, 2], [3, 4]], ([0, 1, 1], [2, 3, 4]))
    0.75

    Thesis (2.3).
    """
    return _precision(matched("precision", recommended, relevant, users, scores))


def recall(recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None) -> float:
    """The share of the right items that are in the list.

    >>> recall([[1, 2], [3, 4]], ([0, 0, 1], [2, 9, 3]))
    0.75

    Thesis (2.4).
    """
    return _recall(matched("recall", recommended, relevant, users, scores))


def map_at_k(recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None) -> float:
    """The mean of precision(k) over all k from 1 to K, the number of places.

    This is the thesis' mAP@K. The usual one, `average_precision`, takes the precision only at the
    places that hit and divides by how many could have. Here a list of K whose only right item is
    the one that there was scores (1 + 1/2 + ... + 1/K) / K if it comes first, there it scores 1. An
    empty place counts as a wrong item.

    >>> map_at_k([[1, 2]], ([0], [1])), average_precision([[1, 2]], ([0], [1]))
    (0.75, 1.0)

    Thesis (2.5).
    """
    return _map_at_k(matched("map_at_k", recommended, relevant, users, scores))


def average_precision(
    recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None
) -> float:
    """The mean over right items of the precision at their places; those not listed add 0.

    Divided by the right items, or by the places where these are fewer, so that 1 can be reached.
    `map_at_k` says how the thesis' mean differs.

    >>> average_precision([[1, 2, 3]], ([0, 0], [1, 3]))
    0.8333333333333333
    """
    return _average_precision(matched("average_precision", recommended, relevant, users, scores))


def ndcg(
    recommended: Any,
    relevant: Any,
    *,
    users: Any = None,
    scores: Any = None,
    gains: Any = None,
) -> float:
    """Gains of the right items, each over log2(1 + place), as a share of the most there can be.

    gains: what each relevant pair is worth, from 0 up (a rating, for example); 1 unless told.
    A user all of whose gains are 0 counts 0.

    >>> round(ndcg([[1, 2]], ([0], [2])), 4)
    0.6309

    Jarvelin and Kekalainen 2002, with the gains as they are.
    """
    return _ndcg(matched("ndcg", recommended, relevant, users, scores, gains))


def mrr(recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None) -> float:
    """One over the place of the first right item, 0 where there is none.

    >>> mrr([[1, 2], [3, 4]], ([0, 1], [2, 3]))
    0.75
    """
    return _mrr(matched("mrr", recommended, relevant, users, scores))


def hit_rate(recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None) -> float:
    """The share of users with at least one right item in their list.

    >>> hit_rate([[1, 2], [3, 4]], ([0, 1], [2, 9]))
    0.5
    """
    return _hit_rate(matched("hit_rate", recommended, relevant, users, scores))


def ranked(
    recommended: Any, relevant: Any, *, users: Any = None, scores: Any = None
) -> dict[str, float]:
    """All of these at once, for the work of one, and `users`, how many the means are over.

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

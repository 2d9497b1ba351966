"""Ratings from what people do: views, carts and purchases as values of a user for an item."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.core.ids import ids_of
from sfumato.core.typing import Column, Ids
from sfumato.core.validation import number, one_of
from sfumato.data.interactions import Interactions

__all__ = ["ratings_from_actions"]

COMBINE = one_of(("max", "sum", "last"))


def ratings_from_actions(
    users: Ids,
    items: Ids,
    actions: Column,
    values: Mapping[str, float],
    *,
    times: Any = None,
    combine: str = "max",
) -> Interactions:
    """Infer ratings from actions: one rating for each pair of a user and an item.

    Parameters
    ----------
    users : array_like or scalar
        User ids.
    items : array_like or scalar
        Item ids, as many as users.
    actions : array_like of shape (n,)
        What the user did: texts, each a key of `values`.
    values : mapping of str to float
        Rating that each action implies, such as ``{"view": 2, "purchase": 5}``.
    times : array_like or None, default=None
        Numbers or dates of the actions.
    combine : {"max", "sum", "last"}, default="max"
        Rating of a pair with several actions: the highest value, the sum of all, or that of the
        latest action, which is the last row where times are equal or None.

    Returns
    -------
    Interactions
        One row per pair, in the order of first appearance, with the latest time of its actions.

    Raises
    ------
    ValueError
        If an action has no value, or columns differ in length.

    Examples
    --------
    >>> actions = ["view", "purchase", "view"]
    >>> made = ratings_from_actions([1, 1, 2], ["tea"] * 3, actions, {"view": 2, "purchase": 5})
    >>> made.users, made.ratings
    (array([1, 2]), array([5., 2.]))
    """
    owner = "ratings_from_actions"
    how = COMBINE.check(owner, "combine", combine)
    known = {
        str(name): number.check(owner, f"values[{name!r}]", value) for name, value in values.items()
    }
    done = ids_of(actions, "actions")
    names, codes = np.unique(done.astype(str), return_inverse=True)
    unknown = [name for name in names.tolist() if name not in known]
    if unknown:
        raise ValueError(
            f"{owner}: {len(unknown)} kinds of actions have no value; there are values of "
            f"{', '.join(known) or 'none'}: add the others, or leave their rows out."
        )
    implied = np.array([known[name] for name in names.tolist()], np.float64)
    rows = Interactions(users, items, implied[codes] if done.size else [], times)
    coded = rows.coded()
    pairs = coded.user_codes.astype(np.int64) * max(coded.item_ids.size, 1) + coded.item_codes
    _, first, of = np.unique(pairs, return_index=True, return_inverse=True)
    ratings, latest = _combined(rows, of, first.size, how)
    order = np.argsort(first)
    chosen = first[order]
    return Interactions(
        rows.users[chosen],
        rows.items[chosen],
        ratings[order],
        None if latest is None else latest[order],
    )


def _combined(
    rows: Interactions, of: np.ndarray, size: int, how: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rating and the latest time of each pair."""
    latest = None
    if rows.times is not None:
        latest = np.full(size, -np.inf)
        np.maximum.at(latest, of, rows.times)
    if how == "sum":
        return np.bincount(of, rows.ratings, size), latest
    if how == "max":
        ratings = np.full(size, -np.inf)
        np.maximum.at(ratings, of, rows.ratings)
        return ratings, latest
    by = np.arange(of.size) if rows.times is None else np.argsort(rows.times, kind="stable")
    ratings = np.zeros(size)
    ratings[of[by]] = rows.ratings[by]  # of several assignments to one place the last stays
    return ratings, latest

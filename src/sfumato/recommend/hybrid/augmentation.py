"""Augmentation: rows for rare items that one model makes up from its scores, for another to use."""

from collections.abc import Iterator

import numpy as np

from sfumato.core.arrays import top_n
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import Estimator
from sfumato.recommend.hybrid.combining import standardized
from sfumato.recommend.hybrid.parts import score_pairs, score_table
from sfumato.recommend.hybrid.support import Support
from sfumato.recommend.ranking import barred, excluded_by, row_blocks

__all__ = ["augmented"]

USERS = 8192  # at most, that rows are made up for: a random sample of them


def augmented(
    model: Estimator, train: Interactions, least: int, rates: bool, random_state: int
) -> Interactions:
    """Return the rows and further ones, so that each item of the catalogue has at least so many.

    For lists, an item gets the users to whom the model gives it the highest scores, relative to
    their other items; they would all give it the highest rating there is. For ratings, it gets
    random users and the ratings that the model predicts.
    """
    support = Support.of(train, model.catalogue_)
    rare = np.flatnonzero(support.item_counts < least)
    needed = least - support.item_counts[rare]
    random = np.random.default_rng(random_state)
    users = random.permutation(np.sort(train.coded().user_ids))[:USERS]
    if not rare.size:
        return train
    width = min(least, users.size)
    if rates:
        chosen = np.stack([random.permutation(users.size)[:width] for _ in rare])
        there = np.ones(chosen.shape, bool)
    else:
        chosen, there = _most_attracted(model, train, users, rare, width)
    there &= np.arange(width) < needed[:, None]
    who = users[chosen[there]]
    what = model.catalogue_.take(np.broadcast_to(rare[:, None], chosen.shape)[there])
    ratings = np.full(who.size, train.ratings.max())
    if rates:
        ratings = np.clip(score_pairs(model, who, what), model.low_, model.high_)
    if not who.size:
        return train
    times = None if train.times is None else np.full(who.size, train.times.max())
    return train.merge(Interactions(who, what, ratings if train.has_ratings else None, times))


def _most_attracted(
    model: Estimator, train: Interactions, users: np.ndarray, rare: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the users with the highest standardised scores of each rare item, and which exist.

    Both are of shape (rare, width); the items that a user has do not count.
    """
    best = np.full((rare.size, width), -np.inf)
    chosen = np.zeros((rare.size, width), np.int64)
    for part, table in _tables(model, train, users):
        scores = np.concatenate([best, table[:, rare].T], axis=1)
        rows = np.broadcast_to(np.arange(part.start, part.stop), (rare.size, len(table)))
        candidates = np.concatenate([chosen, rows], axis=1)
        at, best = top_n(scores, width)
        chosen = np.take_along_axis(candidates, at, axis=1)
    return chosen, best > -np.inf


def _tables(
    model: Estimator, train: Interactions, users: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Standardised scores of some of the users at a time, -inf for the items that they have."""
    excluded = excluded_by(type(model).__name__, users, train, model.catalogue_)
    for part in row_blocks(users.size, len(model.catalogue_)):
        yield part, barred(standardized(score_table(model, users[part])), None, excluded, part)

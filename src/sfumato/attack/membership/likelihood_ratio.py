"""Likelihood ratios: how much likelier an error is of a row that was learned from.

The attack from the latent factors themselves: who holds p_u and all q_i tests pair (u, i).
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from sfumato.attack.membership.records import ODD, Records, Sides
from sfumato.attack.numerics import logistic_weights
from sfumato.data.interactions import Interactions

__all__ = ["by_factors", "by_kind_of_row", "by_shadow_models", "has_factors"]

KINDS = 4  # of users by activity, of items by popularity
LEVELS = 6  # of ratings
COLUMNS = ("users", "items", "ratings")
TINY = 1e-12
SPREAD_ROWS = 50_000  # the spread is one number; more rows would not change it
FEW, PRIOR = 5, 50  # rows that the law of all, and that of a rating, are worth in narrower ones
Score = Callable[[Records], np.ndarray]


def by_kind_of_row(known: Sides) -> Score:
    """A score from normal laws of errors, one for members and one for others of each kind of row.

    The kind of a row is its rating, how active its user and how popular its item is: rare ratings
    and quiet users are hard to predict for any model, and a large error tells little there.
    """
    kind = _kinds(known)
    distributions = [_Laws(kind(side), side.errors) for side in known[:2]]

    def score(rows: Records) -> np.ndarray:
        member, other = (
            distribution.log_density(kind(rows), rows.errors) for distribution in distributions
        )
        return np.asarray(member - other, np.float64)

    return score


def by_shadow_models(
    make: Callable[[], Any], train: Interactions, test: Interactions, shadows: int, seed: int
) -> Score:
    """A score from models trained like the attacked one, each without another part of all rows.

    Every row is left out by one of them. The errors that they make on a row with and without it are
    centres of two normal laws, whose spread is pooled over all rows: Carlini and others 2022, for
    few shadow models. It needs no knowledge of who is a member.
    """
    pool = _joined(train, test, seed)
    part = _part(pool, shadows, seed)
    models = [make().fit(pool.filter(part != left_out)) for left_out in range(shadows)]

    def errors_of(pairs: Interactions) -> tuple[np.ndarray, np.ndarray]:
        told = np.stack([model.predict(pairs.users, pairs.items) for model in models])
        return told - pairs.ratings, _part(pairs, shadows, seed) != np.arange(shadows)[:, None]

    spread = _spread(*errors_of(pool.filter(np.arange(min(SPREAD_ROWS, len(pool))))))
    return lambda rows: _ratio(rows.errors, *errors_of(rows.pairs), spread)


def _spread(errors: np.ndarray, inside: np.ndarray) -> float:
    """The variance of the errors on one row among models that learned from it."""
    rows = inside.sum(axis=0)
    centre = np.where(inside, errors, 0).sum(axis=0) / rows
    squares = np.where(inside, errors - centre, 0) ** 2
    return float(squares.sum() / (rows - 1).sum()) + TINY


def _ratio(
    errors: np.ndarray, shadows: np.ndarray, inside: np.ndarray, spread: float
) -> np.ndarray:
    """Log of the ratio of the densities around the mean error inside and the error outside."""
    rows = inside.sum(axis=0)
    member = np.where(inside, shadows, 0).sum(axis=0) / rows
    other = np.where(inside, 0, shadows).sum(axis=0)
    # The centres are themselves draws: of one model outside, of the mean of the others inside.
    near, far = spread * (1 + 1 / rows), 2 * spread
    return np.asarray((errors - other) ** 2 / far - (errors - member) ** 2 / near, np.float64)


def _mixed(pairs: Interactions, seed: int) -> np.ndarray:
    users, items = pairs.hashed(seed)
    return np.asarray((users ^ (items * ODD)) * ODD)


def _part(pairs: Interactions, parts: int, seed: int) -> np.ndarray:
    """Which part a row is in: by the hash of its user and item, so that any row can be asked."""
    high = _mixed(pairs, seed) >> np.uint64(32)
    return np.asarray(high % np.uint64(parts), np.int64)


def _joined(train: Interactions, test: Interactions, seed: int) -> Interactions:
    """All rows in an order that tells nothing about the side they came from."""
    columns = ((getattr(side, name) for side in (train, test)) for name in COLUMNS)
    pool = Interactions(*(np.concatenate(list(column)) for column in columns))
    return pool.filter(np.argsort(_mixed(pool, seed)))


class _Laws:
    """The normal law of the errors of each kind of row, which leans on that of its rating."""

    def __init__(self, kinds: np.ndarray, errors: np.ndarray) -> None:
        rating = np.arange(KINDS * KINDS * LEVELS) % LEVELS
        moments = np.stack([errors, errors**2])
        of_all = np.repeat(moments.mean(axis=1)[:, None], LEVELS, axis=1)
        of_rating = _leaning(kinds % LEVELS, moments, of_all, FEW)
        mean, square = _leaning(kinds, moments, of_rating[:, rating], PRIOR)
        self._mean, self._variance = mean, np.maximum(square - mean**2, TINY)

    def log_density(self, kinds: np.ndarray, errors: np.ndarray) -> np.ndarray:
        variance = self._variance[kinds]
        found: np.ndarray = -((errors - self._mean[kinds]) ** 2 / variance + np.log(variance)) / 2
        return found


def _leaning(
    groups: np.ndarray, moments: np.ndarray, toward: np.ndarray, weight: float
) -> np.ndarray:
    """Means of each group, as if as many rows more as the weight had the given means."""
    size = toward.shape[1]
    rows = np.bincount(groups, minlength=size)
    sums = np.stack([np.bincount(groups, moment, size) for moment in moments])
    return np.asarray((sums + weight * toward) / (rows + weight))


def _kinds(known: Sides) -> Callable[[Records], np.ndarray]:
    """A number for each kind of row, from bounds that hold as many known rows each."""

    def edges(name: str, parts: int) -> np.ndarray:
        column = np.concatenate([getattr(side, name) for side in known[:2]])
        return np.asarray(np.quantile(column, np.arange(1, parts) / parts))

    wanted = (("activity", KINDS), ("popularity", KINDS), ("ratings", LEVELS))
    bounds = [(name, parts, edges(name, parts)) for name, parts in wanted]

    def kind(rows: Records) -> np.ndarray:
        found = np.zeros(len(rows), np.int64)
        for name, parts, edge in bounds:
            found = found * parts + np.searchsorted(edge, getattr(rows, name), "right")
        return found

    return kind


FAR = 8.0  # deviations: beyond, a product of two features would decide alone


def has_factors(model: Any) -> bool:
    """Whether the model gives the vectors of users and of items."""
    return all(hasattr(model, name) for name in ("_user_vectors", "_item_vectors"))


def by_factors(
    model: Any, items: Any, known: Sides, rating: bool
) -> Callable[[Records], np.ndarray]:
    """A score by logistic regression on what p_u, q_i and all items' vectors say about a pair.

    Parameters: items, the ids of all of them; known, rows of which the attacker knows the side;
    rating, whether the attacker also knows what the user gave.

    The regression sees the features below and their products two by two. Paper 001, section 7,
    asks for what the factors themselves leak when they are sent to users.
    """
    shape = _inverse_moments(_components(model._item_vectors(items)))

    def features(rows: Records) -> np.ndarray:
        return _features(model, rows, shape, rating)

    seen = np.concatenate([features(side) for side in known[:2]], axis=1)
    centre, spread = (of(axis=1, keepdims=True) for of in (seen.mean, seen.std))

    def terms(found: np.ndarray) -> np.ndarray:
        return _products(np.clip((found - centre) / (spread + TINY), -FAR, FAR))

    member = np.repeat([1.0, 0.0], [len(side) for side in known[:2]])
    weights = logistic_weights(terms(seen), member)
    return lambda rows: weights @ terms(features(rows))


def _components(vectors: np.ndarray) -> np.ndarray:
    """The components of vectors without the bias, which comes last."""
    return np.asarray(vectors[:, :-1], np.float64)


def _inverse_moments(q: np.ndarray) -> np.ndarray:
    """(Q'Q / items)^-1, where a direction that no item has counts for nothing."""
    return np.linalg.pinv(q.T @ q / max(len(q), 1), rcond=1e-9, hermitian=True)


def _features(model: Any, rows: Records, shape: np.ndarray, rating: bool) -> np.ndarray:
    """A row for each statistic of a pair."""
    users, items = model._user_vectors(rows.pairs.users), model._item_vectors(rows.pairs.items)
    p, q = _components(users), _components(items)
    inner, long_p, long_q = (np.einsum("ij,ij->i", a, b) for a, b in ((p, q), (p, p), (q, q)))
    leverage = np.einsum("ij,jk,ik->i", q, shape, q, optimize=True)
    twisted = np.einsum("ij,jk,ik->i", p, shape, q, optimize=True)
    columns = [
        *(inner, np.abs(inner), twisted, leverage),
        *(np.sqrt(long_p), np.sqrt(long_q), inner / np.sqrt(long_p * long_q + TINY)),
        *(users[:, -1], items[:, -1]),
    ]
    if rating:
        told = inner + users[:, -1] + items[:, -1] + getattr(model, "mean_", 0.0)
        error = rows.ratings - told  # not cut to the bounds: the holder of factors sees beyond
        columns += [error, np.abs(error), rows.ratings]
    return np.stack(columns)


def _products(features: np.ndarray) -> np.ndarray:
    """A row for each feature, for each square or product of two, and one constant row."""
    pairs = list(combinations_with_replacement(range(len(features)), 2))
    out = np.empty((len(features) + len(pairs) + 1, features.shape[1]))
    out[: len(features)], out[-1] = features, 1
    for at, (a, b) in enumerate(pairs, len(features)):
        np.multiply(features[a], features[b], out=out[at])
    return out

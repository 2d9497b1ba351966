"""Scores of membership attacks: likelihood ratios of errors, and tests of the latent factors."""

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
VARIANCE_ROWS = 50_000  # the variance is one number; more rows would not change it
FEW, PRIOR = 5, 50  # prior weights, in rows, of the moments of all rows and of a rating's rows
Score = Callable[[Records], np.ndarray]


def by_kind_of_row(known: Sides) -> Score:
    """Score from normal distributions of errors, of members and non-members of each kind of row.

    The kind of a row is its rating, its user's activity and its item's popularity: rare ratings and
    inactive users are hard to predict for any model, and a large error says little there.
    """
    kind = _kinds(known)
    distributions = [_NormalErrors(kind(side), side.errors) for side in known[:2]]

    def score(rows: Records) -> np.ndarray:
        member, other = (
            distribution.log_density(kind(rows), rows.errors) for distribution in distributions
        )
        return np.asarray(member - other, np.float64)

    return score


def by_shadow_models(
    make: Callable[[], Any], train: Interactions, test: Interactions, shadows: int, seed: int
) -> Score:
    """Score from models trained like the attacked one, each without another part of all rows.

    Every row is left out by exactly one of them. The errors on a row with and without it are
    centres of two normal distributions with a pooled variance: Carlini et al. 2022 (LiRA), for few
    shadow models. The attacker need not know any member.
    """
    pool = _joined(train, test, seed)
    part = _part(pool, shadows, seed)
    models = [make().fit(pool.filter(part != left_out)) for left_out in range(shadows)]

    def errors_of(pairs: Interactions) -> tuple[np.ndarray, np.ndarray]:
        predicted = np.stack([model.predict(pairs.users, pairs.items) for model in models])
        return predicted - pairs.ratings, _part(pairs, shadows, seed) != np.arange(shadows)[:, None]

    variance = _variance(*errors_of(pool.filter(np.arange(min(VARIANCE_ROWS, len(pool))))))
    return lambda rows: _ratio(rows.errors, *errors_of(rows.pairs), variance)


def _variance(errors: np.ndarray, inside: np.ndarray) -> float:
    """Variance of the errors on one row among models that learned from it."""
    rows = inside.sum(axis=0)
    centre = np.where(inside, errors, 0).sum(axis=0) / rows
    squares = np.where(inside, errors - centre, 0) ** 2
    return float(squares.sum() / (rows - 1).sum()) + TINY


def _ratio(
    errors: np.ndarray, shadows: np.ndarray, inside: np.ndarray, variance: float
) -> np.ndarray:
    """Log-ratio of the densities around the mean error inside and the error outside."""
    rows = inside.sum(axis=0)
    member = np.where(inside, shadows, 0).sum(axis=0) / rows
    other = np.where(inside, 0, shadows).sum(axis=0)
    # The centres are random too: one model outside, the mean of the others inside.
    near, far = variance * (1 + 1 / rows), 2 * variance
    return np.asarray((errors - other) ** 2 / far - (errors - member) ** 2 / near, np.float64)


def _mixed(pairs: Interactions, seed: int) -> np.ndarray:
    """Hash of the user and item of each row."""
    users, items = pairs.hashed(seed)
    return np.asarray((users ^ (items * ODD)) * ODD)


def _part(pairs: Interactions, parts: int, seed: int) -> np.ndarray:
    """Part that a row is in, by the hash of its user and item, so that any row can be looked up."""
    high = _mixed(pairs, seed) >> np.uint64(32)
    return np.asarray(high % np.uint64(parts), np.int64)


def _joined(train: Interactions, test: Interactions, seed: int) -> Interactions:
    """All rows in an order that is independent of the side they came from."""
    names = COLUMNS if train.has_ratings else COLUMNS[:2]
    columns = ((getattr(side, name) for side in (train, test)) for name in names)
    pool = Interactions(*(np.concatenate(list(column)) for column in columns))
    return pool.filter(np.argsort(_mixed(pool, seed)))


class _NormalErrors:
    """Normal distribution of the errors of each kind of row, shrunk toward that of its rating."""

    def __init__(self, kinds: np.ndarray, errors: np.ndarray) -> None:
        rating = np.arange(KINDS * KINDS * LEVELS) % LEVELS
        moments = np.stack([errors, errors**2])
        of_all = np.repeat(moments.mean(axis=1)[:, None], LEVELS, axis=1)
        of_rating = _shrunk(kinds % LEVELS, moments, of_all, FEW)
        mean, square = _shrunk(kinds, moments, of_rating[:, rating], PRIOR)
        self._mean, self._variance = mean, np.maximum(square - mean**2, TINY)

    def log_density(self, kinds: np.ndarray, errors: np.ndarray) -> np.ndarray:
        variance = self._variance[kinds]
        found: np.ndarray = -((errors - self._mean[kinds]) ** 2 / variance + np.log(variance)) / 2
        return found


def _shrunk(
    groups: np.ndarray, moments: np.ndarray, toward: np.ndarray, weight: float
) -> np.ndarray:
    """Means of each group, shrunk toward `toward` with a weight in rows."""
    size = toward.shape[1]
    rows = np.bincount(groups, minlength=size)
    sums = np.stack([np.bincount(groups, moment, size) for moment in moments])
    return np.asarray((sums + weight * toward) / (rows + weight))


def _kinds(known: Sides) -> Callable[[Records], np.ndarray]:
    """A number for each kind of row, from quantiles of the known rows."""

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


FAR = 8.0  # standard deviations: beyond, one product of features would dominate


def has_factors(model: Any) -> bool:
    """Whether the model exposes the vectors of users and of items."""
    return all(hasattr(model, name) for name in ("_user_vectors", "_item_vectors"))


def by_factors(
    model: Any, items: Any, known: Sides, rating: bool
) -> Callable[[Records], np.ndarray]:
    """Score by logistic regression on statistics of p_u, q_i and all items' vectors.

    Takes the ids of all items; the rows whose side the attacker knows; and whether the attacker
    also knows the rating. The regression uses the features below and their pairwise products. Paper
    001, section 7, raises the question what the factors themselves leak when they are sent to
    users.
    """
    shape = _inverse_moments(_components(model._item_vectors(items)))

    def features(rows: Records) -> np.ndarray:
        return _features(model, rows, shape, rating)

    observed = np.concatenate([features(side) for side in known[:2]], axis=1)
    centre, deviation = (of(axis=1, keepdims=True) for of in (observed.mean, observed.std))

    def expanded(found: np.ndarray) -> np.ndarray:
        return _products(np.clip((found - centre) / (deviation + TINY), -FAR, FAR))

    member = np.repeat([1.0, 0.0], [len(side) for side in known[:2]])
    weights = logistic_weights(expanded(observed), member)
    return lambda rows: weights @ expanded(features(rows))


def _components(vectors: np.ndarray) -> np.ndarray:
    """Components of vectors without the bias, which comes last."""
    return np.asarray(vectors[:, :-1], np.float64)


def _inverse_moments(q: np.ndarray) -> np.ndarray:
    """Pseudo-inverse of Q'Q / items; directions that no item has count for nothing."""
    return np.linalg.pinv(q.T @ q / max(len(q), 1), rcond=1e-9, hermitian=True)


def _features(model: Any, rows: Records, shape: np.ndarray, rating: bool) -> np.ndarray:
    """Statistics of each pair of user and item, one per row."""
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
        predicted = inner + users[:, -1] + items[:, -1] + getattr(model, "mean_", 0.0)
        error = rows.ratings - predicted  # not clipped: whoever has the factors sees the raw score
        columns += [error, np.abs(error), rows.ratings]
    return np.stack(columns)


def _products(features: np.ndarray) -> np.ndarray:
    """Features, their squares and pairwise products, and a constant, one per row."""
    pairs = list(combinations_with_replacement(range(len(features)), 2))
    out = np.empty((len(features) + len(pairs) + 1, features.shape[1]))
    out[: len(features)], out[-1] = features, 1
    for at, (a, b) in enumerate(pairs, len(features)):
        np.multiply(features[a], features[b], out=out[at])
    return out

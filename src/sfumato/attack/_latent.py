"""The attack from the latent factors themselves: who holds p_u and all q_i tests pair (u, i)."""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from sfumato.attack._logistic import logistic
from sfumato.attack._rows import Rows, Sides

__all__ = ["by_factors", "has_factors"]

TINY = 1e-12
FAR = 8.0  # deviations: beyond, a product of two features would decide alone


def has_factors(model: Any) -> bool:
    """Whether the model gives the vectors of users and of items."""
    return all(hasattr(model, name) for name in ("_user_vectors", "_item_vectors"))


def by_factors(model: Any, items: Any, known: Sides, rating: bool) -> Callable[[Rows], np.ndarray]:
    """A score by logistic regression on what p_u, q_i and all items' vectors say about a pair.

    Parameters: items, the ids of all of them; known, rows of which the attacker knows the side;
    rating, whether the attacker also knows what the user gave.

    The regression sees the features below and their products two by two. Paper 001, section 7,
    asks for what the factors themselves leak when they are sent to users.
    """
    shape = _inverse_moments(_components(model._item_vectors(items)))

    def features(rows: Rows) -> np.ndarray:
        return _features(model, rows, shape, rating)

    seen = np.concatenate([features(side) for side in known[:2]], axis=1)
    centre, spread = (of(axis=1, keepdims=True) for of in (seen.mean, seen.std))

    def terms(found: np.ndarray) -> np.ndarray:
        return _products(np.clip((found - centre) / (spread + TINY), -FAR, FAR))

    member = np.repeat([1.0, 0.0], [len(side) for side in known[:2]])
    weights = logistic(terms(seen), member)
    return lambda rows: weights @ terms(features(rows))


def _components(vectors: np.ndarray) -> np.ndarray:
    """The components of vectors without the bias, which comes last."""
    return np.asarray(vectors[:, :-1], np.float64)


def _inverse_moments(q: np.ndarray) -> np.ndarray:
    """(Q'Q / items)^-1, where a direction that no item has counts for nothing."""
    return np.linalg.pinv(q.T @ q / max(len(q), 1), rcond=1e-9, hermitian=True)


def _features(model: Any, rows: Rows, shape: np.ndarray, rating: bool) -> np.ndarray:
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

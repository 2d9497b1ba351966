"""What vectors tell: parts of a prediction, nearest items, a guest's vector from a few items."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._require import optional, positive
from sfumato.recommend._ranking import Seen

if TYPE_CHECKING:
    from sfumato.recommend._model import Factorization

__all__ = ["directions", "guest", "nearest", "parts"]

RIDGE = optional(positive)


def directions(vectors: np.ndarray) -> np.ndarray:
    """The components of each row, without the bias, at length 1; rows of zeros stay zeros."""
    components = np.ascontiguousarray(vectors[:, :-1])
    lengths = np.sqrt(np.einsum("ij,ij->i", components, components, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.asarray(components / lengths[:, None], np.float32)


def nearest(model: "Factorization", items: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Places in the catalogue and cosines of the n nearest to each item, itself left out."""
    queries = directions(model._in_blocks(model._item_vectors, items))
    itself = model.catalogue_.places(items)
    rows = np.where(itself >= 0, np.arange(items.size), -1)
    seen = Seen(np.arange(items.size + 1), np.maximum(itself, 0), rows)
    return model._shelf("cosines").best(queries, n, seen=seen)


def parts(model: "Factorization", user: Any, item: Any, n: int) -> dict[str, Any]:
    """The parts of one prediction, as plain values that add up to its score."""
    who, what = model._pairs(user, item)
    if who.size != 1:
        raise ValueError(f"{type(model).__name__}: explain takes one user and one item.")
    p, q = model._user_vectors(who)[0], model._item_vectors(what)[0]
    products = p[:-1].astype(np.float64) * q[:-1]
    strongest = np.argsort(-np.abs(products), kind="stable")[:n]
    biases = float(p[-1]), float(q[-1])
    score = model.mean_ + sum(biases) + float(products.sum())
    ids, cosines = model.similar_items(what[0], n)
    return {
        "mean": model.mean_,
        "user_bias": biases[0],
        "item_bias": biases[1],
        "components": [
            {
                "component": at,
                "user": float(p[at]),
                "item": float(q[at]),
                "part": float(products[at]),
            }
            for at in strongest.tolist()
        ],
        "rest": float(np.delete(products, strongest).sum()),
        "score": score,
        "prediction": min(max(score, model.low_), model.high_),
        "similar": list(zip(ids.tolist(), cosines.tolist(), strict=True)),
    }


def guest(
    model: "Factorization", items: np.ndarray, ratings: Any, ridge: float | None
) -> np.ndarray:
    """Components and, last, the bias of someone who gave these ratings, by ridge regression."""
    ridge = RIDGE.check(type(model).__name__, "ridge", ridge) or model.high_ - model.low_ or 1.0
    vectors = model._in_blocks(model._item_vectors, items).astype(np.float64)
    told = _above_bias(model, vectors[:, -1], ratings)
    vectors[:, -1] = ratings is not None  # the column of the guest's bias
    square = vectors.T @ vectors + ridge * np.eye(vectors.shape[1])
    return np.linalg.solve(square, vectors.T @ told).astype(np.float32)


def _above_bias(model: "Factorization", biases: np.ndarray, ratings: Any) -> np.ndarray:
    """How far each rating is above what the item's bias alone predicts."""
    if ratings is None:
        return np.full(biases.size, model.high_ - model.mean_)
    try:
        given = np.asarray(ratings, np.float64).reshape(-1)
    except (TypeError, ValueError):
        given = np.full(biases.size, np.nan)
    if given.size != biases.size or not np.isfinite(given).all():
        raise ValueError(
            f"{type(model).__name__}: ratings must be {biases.size} finite numbers, one an item."
        )
    return np.asarray(np.clip(given, model.low_, model.high_) - model.mean_ - biases)

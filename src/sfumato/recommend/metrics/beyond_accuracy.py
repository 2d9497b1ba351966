"""Metrics beyond accuracy: coverage, novelty and diversity of recommended lists."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.recommend.metrics.ranking import as_column, filled, listed_column

__all__ = ["coverage", "diversity", "novelty"]

BLOCK = 1 << 14  # lists whose vectors are in memory at a time


def coverage(recommended: Any, catalogue: Any, *, scores: Any = None) -> float:
    """Compute the fraction of the catalogue that appears in at least one list.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids.
    catalogue : array_like of shape (n_items,)
        The distinct ids that could be recommended.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores, -inf where a list has no item, or a boolean mask, False there. If None, a list has
        no item where the id is -1 or None.

    Returns
    -------
    float
        Fraction from 0 to 1.

    Examples
    --------
    >>> coverage([[1, 2], [2, 3]], [1, 2, 3, 4])
    0.75
    """
    positions, mask = _positions("coverage", recommended, catalogue, "catalogue", scores)
    listed = np.zeros(len(catalogue), np.bool_)
    listed[positions[mask]] = True
    return float(listed.mean())


def novelty(
    recommended: Any, catalogue: Any, counts: Any, users: int, *, scores: Any = None
) -> float:
    """Compute the mean self-information of the recommended items, in bits.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids.
    catalogue : array_like of shape (n_items,)
        The distinct ids that could be recommended.
    counts : array_like of shape (n_items,)
        Number of users who have each item of the catalogue, from 0 to `users`; 0 is treated as 1.
    users : int
        Number of users in all.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores or mask, as in `coverage`.

    Returns
    -------
    float
        Mean of `-log2(counts / users)` over all recommended items; NaN if there are none.

    References
    ----------
    .. [1] Vargas, Castells. "Rank and Relevance in Novelty and Diversity Metrics for Recommender
       Systems". RecSys 2011. https://doi.org/10.1145/2043932.2043955

    Examples
    --------
    >>> novelty([[1, 2]], [1, 2], [8, 2], users=8)
    1.0
    """
    positions, mask = _positions("novelty", recommended, catalogue, "catalogue", scores)
    known = np.asarray(counts, np.float64)
    if known.shape != (len(catalogue),) or not ((known >= 0) & (known <= users)).all():
        raise ValueError(f"novelty: counts must be one from 0 to {users} for each catalogue item.")
    in_lists = positions[mask]
    if not in_lists.size:
        return float("nan")
    return float(-np.log2(np.maximum(known, 1) / users)[in_lists].mean())


def diversity(recommended: Any, items: Any, vectors: Any, *, scores: Any = None) -> float:
    """Compute the mean dissimilarity of the items within a list.

    Parameters
    ----------
    recommended : array_like of shape (n_users, n)
        Recommended item ids.
    items : array_like of shape (n_items,)
        Distinct ids that contain all recommended ones.
    vectors : array_like of shape (n_items, n_features)
        Finite feature vector of each item; a zero vector has cosine 0 with all others.
    scores : array_like of shape (n_users, n) or None, default=None
        Scores or mask, as in `coverage`.

    Returns
    -------
    float
        Mean over lists of the mean of `1 - cosine` over the pairs of a list; lists of fewer than
        two items are left out, NaN if no list remains.

    References
    ----------
    .. [1] Ziegler, McNee, Konstan, Lausen. "Improving Recommendation Lists Through Topic
       Diversification". WWW 2005, intra-list similarity, here as a mean.
       https://doi.org/10.1145/1060745.1060754

    Examples
    --------
    >>> diversity([[1, 2], [1, 3]], [1, 2, 3], [[1, 0], [0, 1], [1, 0]])
    0.5
    """
    positions, mask = _positions("diversity", recommended, items, "items", scores)
    unit = np.asarray(vectors, np.float64)
    if unit.ndim != 2 or len(unit) != len(items) or not np.isfinite(unit).all():
        raise ValueError("diversity: vectors must be one row of finite numbers for each item.")
    norms = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = unit / np.where(norms > 0, norms, 1.0)
    own = (norms[:, 0] > 0).astype(np.float64)  # the cosine of an item and itself
    total, lists = 0.0, 0
    for start in range(0, len(positions), BLOCK):
        at, there = positions[start : start + BLOCK], mask[start : start + BLOCK]
        size = there.sum(axis=1)
        sums = np.einsum("unk,un->uk", unit[at], there)
        similarity = (sums**2).sum(axis=1) - (own[at] * there).sum(axis=1)
        pairs = size * (size - 1)
        total += float((1 - similarity[pairs > 0] / pairs[pairs > 0]).sum())
        lists += int((pairs > 0).sum())
    return total / lists if lists else float("nan")


def _positions(
    owner: str, recommended: Any, ids: Any, name: str, scores: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each recommended item in `ids`, and the mask of slots with an item."""
    mask = filled(owner, recommended, scores)
    column = as_column(owner, ids, name)
    if not len(column) or pc.count_distinct(column).as_py() != len(column):
        raise ValueError(f"{owner}: {name} must be different ids, at least one.")
    listed = listed_column(owner, recommended, mask, column)
    if listed.type != column.type:
        raise TypeError(f"{owner}: {name} and recommended must both be integers or texts.")
    found: pa.Array = pc.index_in(listed, value_set=column)
    positions = found.fill_null(-1).to_numpy().astype(np.int64).reshape(mask.shape)
    if (positions[mask] < 0).any():
        raise ValueError(f"{owner}: {name} must hold every recommended item, and some are not in.")
    return np.where(mask, positions, 0), mask

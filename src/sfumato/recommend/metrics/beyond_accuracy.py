"""Metrics beyond accuracy: coverage, novelty and diversity of recommended lists."""

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array, issparse

from sfumato.core import arrow_compute as pc
from sfumato.recommend.metrics.ranking import as_column, filled, listed_column

__all__ = ["coverage", "diversity", "novelty"]

BLOCK = 1 << 14  # lists whose sums are in memory at a time
SPARSE_BLOCK = 1 << 8  # of sparse vectors, whose sums are far wider


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
        Finite feature vector of each item, dense or a SciPy sparse array; a zero vector has cosine
        0 with all others.
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
    unit, own = _unit(vectors, len(items))
    step = SPARSE_BLOCK if issparse(unit) else BLOCK
    total, lists = 0.0, 0
    for start in range(0, len(positions), step):
        at, there = positions[start : start + step], mask[start : start + step]
        size = there.sum(axis=1)
        ends = np.append(0, np.cumsum(size))
        slots = np.ones(int(ends[-1])), at[there], ends
        chosen = csr_array(slots, shape=(len(at), len(items)))
        sums = chosen @ unit
        values = sums.data if issparse(sums) else sums
        values *= values  # in place: a sparse product or power would sort the indices first
        squares = np.asarray(sums.sum(axis=1))
        pairs = size * (size - 1)
        similarity = (squares - (own[at] * there).sum(axis=1))[pairs > 0] / pairs[pairs > 0]
        total += float((1 - similarity).sum())
        lists += int((pairs > 0).sum())
    return total / lists if lists else float("nan")


def _unit(vectors: Any, size: int) -> tuple[Any, np.ndarray]:
    """Return the vectors at length 1, and each one's cosine with itself: 0 for a zero vector."""
    unit = csr_array(vectors) if issparse(vectors) else np.asarray(vectors)
    if unit.ndim != 2 or unit.shape[0] != size or unit.dtype.kind not in "biuf":
        raise ValueError("diversity: vectors must be one row of finite numbers for each item.")
    unit = unit.astype(np.float64)
    if not np.isfinite(unit.data if issparse(unit) else unit).all():
        raise ValueError("diversity: vectors must be one row of finite numbers for each item.")
    norms = np.sqrt(np.asarray((unit * unit).sum(axis=1)))
    scale = 1 / np.where(norms > 0, norms, 1.0)
    scaled: Any = unit * scale[:, None]
    return scaled.tocsr() if issparse(unit) else scaled, (norms > 0).astype(np.float64)


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

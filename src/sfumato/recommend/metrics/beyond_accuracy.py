"""What lists are like, whatever was right: how much they cover, how new, how different inside."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.recommend.metrics.ranking import as_column, filled, listed_column

__all__ = ["coverage", "diversity", "novelty"]

BLOCK = 1 << 14  # lists whose vectors are held at a time


def coverage(recommended: Any, catalogue: Any, *, scores: Any = None) -> float:
    """The share of the catalogue that is in some list.

    Parameters
    ----------
    recommended : object
        Users x places.
    catalogue : object
        The ids that could be.
    scores : object, default=None
        Whose -inf (or a mask, whose False) says that a place is empty; without them item -1 or None
        says so.

    Returns
    -------
    float
        The share of the catalogue that is in some list.

    Examples
    --------
    >>> coverage([[1, 2], [2, 3]], [1, 2, 3, 4])
    0.75
    """
    positions, told = _positions("coverage", recommended, catalogue, "catalogue", scores)
    listed = np.zeros(len(catalogue), np.bool_)
    listed[positions[told]] = True
    return float(listed.mean())


def novelty(
    recommended: Any, catalogue: Any, counts: Any, users: int, *, scores: Any = None
) -> float:
    """The mean over listed items of -log2 of the share of users who knew the item.

    recommended and scores as in `coverage`;

    Parameters
    ----------
    recommended : object
        TODO.
    catalogue : object
        Ids.
    counts : object
        How many of the `users` users had each of them. An item that nobody had counts as one
        user's.
    users : int
        TODO.
    scores : object, default=None
        TODO.

    Returns
    -------
    float
        The mean over listed items of -log2 of the share of users who knew the item.

    References
    ----------
    .. [1] Vargas and Castells 2011, the self-information.

    Examples
    --------
    >>> novelty([[1, 2]], [1, 2], [8, 2], users=8)
    1.0
    """
    positions, told = _positions("novelty", recommended, catalogue, "catalogue", scores)
    known = np.asarray(counts, np.float64)
    if known.shape != (len(catalogue),) or not ((known >= 0) & (known <= users)).all():
        raise ValueError(f"novelty: counts must be one from 0 to {users} for each catalogue item.")
    released_positions = positions[told]
    if not released_positions.size:
        return float("nan")
    return float(-np.log2(np.maximum(known, 1) / users)[released_positions].mean())


def diversity(recommended: Any, items: Any, vectors: Any, *, scores: Any = None) -> float:
    """The mean over lists of the mean of 1 - cosine over the pairs of a list.

    Lists of fewer than two items are left out. An item of a zero vector is like no other.

    recommended and scores as in `coverage`;

    Parameters
    ----------
    recommended : object
        TODO.
    items : object
        Ids,.
    vectors : object
        A row for each.
    scores : object, default=None
        TODO.

    Returns
    -------
    float
        The mean over lists of the mean of 1 - cosine over the pairs of a list.

    References
    ----------
    .. [1] Ziegler, McNee, Konstan and Lausen 2005, as a mean.

    Examples
    --------
    >>> diversity([[1, 2], [1, 3]], [1, 2, 3], [[1, 0], [0, 1], [1, 0]])
    0.5
    """
    positions, told = _positions("diversity", recommended, items, "items", scores)
    unit = np.asarray(vectors, np.float64)
    if unit.ndim != 2 or len(unit) != len(items) or not np.isfinite(unit).all():
        raise ValueError("diversity: vectors must be one row of finite numbers for each item.")
    norms = np.linalg.norm(unit, axis=1, keepdims=True)
    unit = unit / np.where(norms > 0, norms, 1.0)
    own = (norms[:, 0] > 0).astype(np.float64)  # the cosine of an item and itself
    total, lists = 0.0, 0
    for start in range(0, len(positions), BLOCK):
        at, there = positions[start : start + BLOCK], told[start : start + BLOCK]
        size = there.sum(axis=1)
        sums = np.einsum("unk,un->uk", unit[at], there)
        alike = (sums**2).sum(axis=1) - (own[at] * there).sum(axis=1)
        pairs = size * (size - 1)
        total += float((1 - alike[pairs > 0] / pairs[pairs > 0]).sum())
        lists += int((pairs > 0).sum())
    return total / lists if lists else float("nan")


def _positions(
    owner: str, recommended: Any, ids: Any, name: str, scores: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Where each listed item stands in a column of ids, and the mask of filled places."""
    told = filled(owner, recommended, scores)
    column = as_column(owner, ids, name)
    if not len(column) or pc.count_distinct(column).as_py() != len(column):
        raise ValueError(f"{owner}: {name} must be different ids, at least one.")
    listed = listed_column(owner, recommended, told, column)
    if listed.type != column.type:
        raise TypeError(f"{owner}: {name} and recommended must both be integers or texts.")
    found: pa.Array = pc.index_in(listed, value_set=column)
    positions = found.fill_null(-1).to_numpy().astype(np.int64).reshape(told.shape)
    if (positions[told] < 0).any():
        raise ValueError(f"{owner}: {name} must hold every recommended item, and some are not in.")
    return np.where(told, positions, 0), told

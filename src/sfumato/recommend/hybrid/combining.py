"""Ways to combine tables of scores of several models: by rank, weight, stage or support."""

import numpy as np

__all__ = [
    "in_stages",
    "ranks",
    "reciprocal_ranks",
    "squashed",
    "standardized",
    "switched",
    "weighted",
]

RANK_CONSTANT = 60  # of reciprocal ranks, as in the paper


def standardized(table: np.ndarray) -> np.ndarray:
    """Return each user's scores with mean 0 and variance 1, float64; -inf stays."""
    there = np.isfinite(table)
    counts = np.maximum(there.sum(axis=-1, keepdims=True), 1)
    filled = np.where(there, table, 0.0)
    means = filled.sum(axis=-1, keepdims=True) / counts
    gaps = np.where(there, table - means, 0.0) if not there.all() else table - means
    deviations = np.sqrt((gaps**2).sum(axis=-1, keepdims=True) / counts)
    return np.where(there, gaps / np.where(deviations > 0, deviations, 1.0), -np.inf)


def ranks(table: np.ndarray, eligible: np.ndarray | None = None) -> np.ndarray:
    """Return the rank of each item from 1, best first, ties in order; items not eligible last."""
    scores = table if eligible is None else np.where(eligible, table, -np.inf)
    order = np.argsort(-scores, axis=-1, kind="stable")
    found = np.empty(table.shape, np.int64)
    np.put_along_axis(found, order, np.arange(1, table.shape[-1] + 1), axis=-1)
    return found


def reciprocal_ranks(tables: np.ndarray, eligible: np.ndarray | None = None) -> np.ndarray:
    """Return what each part adds to a mixed list: 1 / (60 + rank)."""
    return np.stack([1 / (RANK_CONSTANT + ranks(table, eligible)) for table in tables])


def weighted(tables: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return what each part adds to a weighted list: its weight times its standardised scores."""
    return np.stack(
        [
            weight * standardized(table) if weight else np.zeros(table.shape)
            for table, weight in zip(tables, weights, strict=True)
        ]
    )


def squashed(table: np.ndarray) -> np.ndarray:
    """Return standardised scores brought to 0 to 1 in the same order; -inf becomes 0."""
    scores = standardized(table)
    return np.where(
        np.isfinite(scores), 0.5 + 0.5 * scores / (1 + np.abs(scores)), np.zeros(table.shape)
    )


def in_stages(
    tables: np.ndarray, short_list: int, eligible: np.ndarray | None = None
) -> np.ndarray:
    """Return what two parts add to a cascade.

    The first adds 1 to an item of its short-list, and its squashed score to any other; the second
    its squashed score to an item of the short-list. So the short-list comes first, in the order of
    the second part, then the others in the order of the first.
    """
    first, second = tables
    chosen = ranks(first, eligible) <= short_list
    return np.stack(
        [np.where(chosen, 1.0, squashed(first)), np.where(chosen, squashed(second), 0.0)]
    )


def switched(tables: np.ndarray, rare: np.ndarray) -> np.ndarray:
    """Return what two parts add where the first scores rare pairs and the second all others."""
    return np.stack([np.where(rare, tables[0], 0.0), np.where(rare, 0.0, tables[1])])

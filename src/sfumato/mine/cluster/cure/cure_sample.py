"""Clusters of a sample by nearest points, without outliers, and their representatives."""

import numpy as np

from sfumato.kernels.mine.cluster import linkage as kernels
from sfumato.kernels.mine.cluster import representatives

__all__ = ["clustered_sample", "represented"]


def clustered_sample(points: np.ndarray, count: int, least: int, fewest: int) -> np.ndarray:
    """Label each point with one of `count` clusters of at least so many points, or -1.

    Clusters come from single linkage. With least > 1, points that are still alone when a third of
    the clusters are left are outliers, and so are smaller clusters at the end; unless fewer than
    `count` clusters would remain. Of as many clusters as points, only isolated points are outliers,
    unless fewer than `fewest` would remain.
    """
    merges = _merges(points)
    if least <= 1:
        return _cut(merges, len(points) - count)
    labels = _cut(merges, 2 * len(points) // 3)
    crowded = np.flatnonzero(np.bincount(labels)[labels] > 1)
    if count == len(points):
        return _placed(np.arange(crowded.size), crowded, merges, fewest)
    found = None
    if crowded.size >= count:
        found = _large_clusters(_merges(points[crowded]), count, least)
    if found is not None:
        return _placed(found, crowded, merges, fewest)
    found = _large_clusters(merges, count, least)
    return _cut(merges, len(points) - count) if found is None else found


def _placed(labels: np.ndarray, rows: np.ndarray, merges: np.ndarray, fewest: int) -> np.ndarray:
    """Labels of some rows, -1 for the others; of every row its own if there are too few."""
    if rows.size < fewest:
        return np.arange(len(merges) + 1)
    out = np.full(len(merges) + 1, -1)
    out[rows] = labels
    return out


def _merges(points: np.ndarray) -> np.ndarray:
    n = len(points)
    first, second, heights = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1)
    kernels.point_tree(points, first, second, heights)
    order = np.argsort(heights, kind="stable")
    out = np.empty((n - 1, 4))
    kernels.joined(first[order], second[order], heights[order], out)
    return out


def _cut(merges: np.ndarray, applied: int) -> np.ndarray:
    labels = np.empty(len(merges) + 1, np.int64)
    kernels.cut(merges, applied, labels)
    return labels


def _large_clusters(merges: np.ndarray, count: int, least: int) -> np.ndarray | None:
    """Labels of the last `count` clusters of at least so many points, -1 elsewhere; or None."""
    n = len(merges) + 1
    large = np.concatenate((np.ones(n), merges[:, 3])) >= least
    # Undoing a merge of two large clusters adds one, of two small ones takes one away.
    children = merges[:, :2].astype(np.int64)
    change = large[children].sum(axis=1) - large[n:]
    numbers = int(large[-1]) + np.cumsum(np.concatenate(([0], change[::-1])))
    enough = numbers >= count
    if not enough.any():
        return None
    labels = _cut(merges, n - 1 - int(enough.argmax()))
    sizes = np.bincount(labels)
    names = np.where(sizes >= least, np.cumsum(sizes >= least) - 1, -1)
    return np.asarray(names[labels])


def represented(
    points: np.ndarray,
    labels: np.ndarray,
    scattered: int,
    shrink: float,
    n_clusters: int,
    threshold: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Representatives, the cluster of each, and the labels after merging by them."""
    labels, count = labels.copy(), int(labels.max()) + 1
    places = np.zeros((count, scattered, points.shape[1]))
    counts = np.zeros(count, np.int64)
    count = representatives.merge(points, labels, shrink, n_clusters, threshold, places, counts)
    chosen = np.arange(scattered) < counts[:count, None]
    owners = np.repeat(np.arange(count), counts[:count])
    return places[:count][chosen], owners, labels

"""The merges of each linkage in the form of SciPy, how many of them a stopping rule applies."""

from typing import Any

import numpy as np

from sfumato.kernels.mine.cluster import divisive
from sfumato.kernels.mine.cluster import linkage as kernels
from sfumato.mine.cluster.hierarchical.distance_matrix import RowDistances

__all__ = [
    "CLUSTROIDS",
    "LINKAGES",
    "STOPS",
    "applied_merges",
    "clustroids",
    "merges_of",
    "needs_matrix",
]

REPRESENTED = ("centroid", "clustroid")
LINKAGES = (*REPRESENTED, "single", "complete", "average", "within", "diameter", "density")
CLUSTROIDS = {"mean": "SUM", "squares": "SQUARES", "largest": "LARGEST"}  # in the kernels
STOPS = ("diameter", "density", "jump")


def merges_of(source: RowDistances, linkage: str, clustroid: str, power: float) -> np.ndarray:
    """Rows (cluster, cluster, height, size) of all merges; linkage "divisive" splits from above."""
    n = len(source)
    if n == 1:
        return np.empty((0, 4))
    first, second, heights = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64), np.empty(n - 1)
    out = first, second, heights
    order: Any = slice(None)
    if linkage == "divisive":
        divisive.divide(source.matrix(), *out)
        order = slice(None, None, -1)
    elif linkage in ("single", "complete", "average", "diameter"):
        _reducible(source, linkage, out)
        order = np.argsort(heights, kind="stable")
    else:
        _nearest(source.matrix(), linkage, clustroid, power, out)
    merges = np.empty((n - 1, 4))
    ordered = [np.ascontiguousarray(each[order]) for each in out]
    kernels.joined(*ordered, merges)
    return merges


def needs_matrix(source: RowDistances, linkage: str, stop: str | None) -> bool:
    """Whether all distances are in memory at once."""
    return linkage != "single" or source.rows is None or stop in ("diameter", "density")


def _reducible(source: RowDistances, linkage: str, out: Any) -> None:
    """Merges in no order. No cluster is wider than any pair is apart: diameter is complete."""
    if linkage == "single" and source.rows is not None:
        kernels.point_tree(source.rows, *out)
    elif linkage == "single":
        kernels.spanning_tree(source.matrix(), *out)
    else:
        kernels.chain(source.matrix(), int(linkage == "average"), *out)


def _nearest(distances: np.ndarray, linkage: str, clustroid: str, power: float, out: Any) -> None:
    sizes = np.arange(len(distances) + 1, dtype=np.float64)
    if linkage == "centroid":
        np.square(distances, out=distances)
        kernels.nearest_pairs(distances, kernels.CENTROID, sizes, *out)
        np.sqrt(out[2], out=out[2])
    elif linkage == "density":
        kernels.nearest_pairs(distances, kernels.DENSITY, sizes ** (1 / power), *out)
    elif linkage == "within":
        kernels.nearest_pairs(distances, kernels.WITHIN, sizes * (sizes - 1) / 2, *out)
    else:
        kernels.nearest_pairs(distances, getattr(kernels, CLUSTROIDS[clustroid]), sizes, *out)


def applied_merges(
    source: RowDistances,
    merges: np.ndarray,
    linkage: str,
    plain: dict[str, Any],
    power: float,
) -> int:
    """How many of the first merges the stopping rule applies."""
    most = len(source) - (plain["n_clusters"] or 1)
    if plain["stop"] is None or not len(merges):
        return most
    if plain["stop"] == "jump":
        return min(most, _before_jump(merges[:, 2], plain["threshold"]))
    if linkage in ("complete", "diameter", "divisive"):
        widths = merges[:, 2]
    else:
        widths = np.empty(len(merges))
        kernels.diameters(source.matrix(), merges, widths)
    if plain["stop"] == "diameter":
        bad = widths > plain["threshold"]
    else:
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            bad = merges[:, 3] / widths**power < plain["threshold"]
    if linkage == "divisive":
        return min(most, _until_all_good(merges, bad))
    return min(most, int(bad.argmax()) if bad.any() else len(bad))


def _before_jump(heights: np.ndarray, threshold: float | None) -> int:
    """Merges before the largest rise, or before the first height out of line (Mojena's rule)."""
    if heights.size < 2:
        return int(heights.size)
    if threshold is None:
        rises = np.diff(heights)
        return int(rises.argmax()) + 1 if rises.max() > 0 else int(heights.size)
    high = heights > heights.mean() + threshold * heights.std(ddof=1)
    return int(high.argmax()) if high.any() else int(heights.size)


def _until_all_good(merges: np.ndarray, bad: np.ndarray) -> int:
    """The most merges after which no cluster is bad: splits from above until then."""
    n, count = len(merges) + 1, int(bad[-1])
    for t in range(len(merges) - 1, -1, -1):
        if not count:
            return t + 1
        count -= int(bad[t])
        for child in merges[t, :2].astype(np.int64):
            count += int(child >= n and bad[child - n])
    return 0


def clustroids(source: RowDistances, labels: np.ndarray, definition: str) -> np.ndarray:
    """The row of each cluster that is closest to its others; of equal ones the first."""
    found = np.empty(labels.max() + 1, np.int64)
    for cluster in range(found.size):
        members = np.flatnonzero(labels == cluster)
        distances = source.matrix(members)
        if definition == "largest":
            far = distances.max(axis=1)
        else:
            if definition == "squares":
                np.square(distances, out=distances)
            far = distances.sum(axis=1)
        found[cluster] = members[far.argmin()]
    return found

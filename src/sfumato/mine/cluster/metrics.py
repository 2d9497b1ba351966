"""How well clusters agree with known classes: purity, entropy, Rand and adjusted Rand index."""

import math
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core.typing import Column
from sfumato.core.validation import flag, fraction, integer
from sfumato.errors import NullValueError

__all__ = ["adjusted_rand_index", "entropy", "neighbourhood_side", "purity", "rand_index"]


def purity(classes: Column, clusters: Column, *, per_cluster: bool = False) -> Any:
    """Compute the fraction of rows that are of the most frequent class of their cluster.

    Parameters
    ----------
    classes : array_like of shape (n,)
        Known class of each row: integers, texts or other values of one type.
    clusters : array_like of shape (n,)
        Cluster of each row, likewise.
    per_cluster : bool, default=False
        Whether to return a number per cluster instead of one for all.

    Returns
    -------
    float or dict
        From above 0 to 1; 1 if every cluster is of one class. With `per_cluster`, a dict of it by
        cluster.

    Notes
    -----
    **Guarantee.** That of cluster i is ``max_j n_ij / n_i``, where n_ij of its n_i rows are of
    class j, and that of all their mean weighted by n_i. One cluster per row has 1: compare only
    clusterings of the same number of clusters.

    Examples
    --------
    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1])
    0.75
    >>> purity(["a", "a", "b", "b"], [0, 0, 0, 1], per_cluster=True)
    {0: 0.6666666666666666, 1: 1.0}
    """
    table = _Contingency("purity", classes, clusters)
    most = np.zeros(table.cluster_sizes.size, np.int64)
    np.maximum.at(most, table.cluster, table.counts)
    if flag.check("purity", "per_cluster", per_cluster):
        return table.by_cluster(most / table.cluster_sizes)
    return float(most.sum() / table.n)


def entropy(classes: Column, clusters: Column, *, per_cluster: bool = False) -> Any:
    """Compute the entropy of the classes within a cluster, in bits.

    Parameters
    ----------
    classes : array_like of shape (n,)
        Known class of each row: integers, texts or other values of one type.
    clusters : array_like of shape (n,)
        Cluster of each row, likewise.
    per_cluster : bool, default=False
        Whether to return a number per cluster instead of one for all.

    Returns
    -------
    float or dict
        From 0, if every cluster is of one class, to the logarithm of the number of classes. With
        `per_cluster`, a dict of it by cluster.

    Notes
    -----
    **Guarantee.** That of cluster i is ``-sum_j p_ij log2 p_ij`` with p_ij = n_ij / n_i; that of
    all is their mean weighted by n_i, the conditional entropy of the class given the cluster.

    Examples
    --------
    >>> entropy(["a", "b", "b", "b"], [0, 0, 1, 1])
    0.5
    """
    table = _Contingency("entropy", classes, clusters)
    share = table.counts / table.cluster_sizes[table.cluster]
    bits = np.bincount(table.cluster, -share * np.log2(share), table.cluster_sizes.size)
    bits = np.maximum(bits, 0.0)  # also turns -0.0 into 0.0
    if flag.check("entropy", "per_cluster", per_cluster):
        return table.by_cluster(bits)
    return float(bits @ table.cluster_sizes / table.n)


def rand_index(classes: Column, clusters: Column) -> float:
    """Compute the fraction of pairs of rows that both labellings join or both separate.

    Parameters
    ----------
    classes : array_like of shape (n,)
        Known class of each row: integers, texts or other values of one type.
    clusters : array_like of shape (n,)
        Cluster of each row, likewise.

    Returns
    -------
    float
        From 0 to 1; 1 if the two are equal up to the names of labels, and for a single row.

    Notes
    -----
    **Guarantee.** Pairs are counted in integers from the contingency table, for any number of rows;
    exchanging the two columns changes nothing.

    References
    ----------
    .. [1] Rand. "Objective criteria for the evaluation of clustering methods". JASA 66, 1971.
       https://doi.org/10.1080/01621459.1971.10482356

    Examples
    --------
    >>> rand_index(["a", "a", "b"], [0, 0, 0])
    0.3333333333333333
    """
    both, rows, columns, pairs = _Contingency("rand_index", classes, clusters).pairs()
    return (pairs + 2 * both - rows - columns) / pairs if pairs else 1.0


def adjusted_rand_index(classes: Column, clusters: Column) -> float:
    """Compute the Rand index adjusted for chance.

    Parameters
    ----------
    classes : array_like of shape (n,)
        Known class of each row: integers, texts or other values of one type.
    clusters : array_like of shape (n,)
        Cluster of each row, likewise.

    Returns
    -------
    float
        1 if the two are equal up to the names of labels, about 0 for random labels, at least -0.5.

    Notes
    -----
    **Guarantee.** Its mean is 0 if labels are permuted at random. Where the index of every
    permutation is the same, as with one cluster and one class, it is 1.

    References
    ----------
    .. [1] Hubert, Arabie. "Comparing partitions". Journal of Classification 2, 1985, equation 5.
       https://doi.org/10.1007/BF01908075

    Examples
    --------
    >>> adjusted_rand_index(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    >>> round(adjusted_rand_index(["a", "a", "b", "b"], [0, 0, 0, 1]), 6)
    0.0
    """
    table = _Contingency("adjusted_rand_index", classes, clusters)
    both, rows, columns, pairs = table.pairs()
    # (both - expected) / (mean of rows and columns - expected), times 2 pairs.
    above = 2 * (both * pairs - rows * columns)
    below = (rows + columns) * pairs - 2 * rows * columns
    return above / below if below else 1.0


def neighbourhood_side(fraction_of_points: float, dimension: int) -> float:
    """Compute the side of the cube that contains a fraction of points uniform in the unit cube.

    It shows how far neighbours are in many dimensions: beyond about ten, the nearest of even a
    million points are nearly as far as all others, and clusters by distance mean little.

    Parameters
    ----------
    fraction_of_points : float
        Fraction of the points, between 0 and 1.
    dimension : int
        Number of dimensions, at least 1.

    Returns
    -------
    float
        The side, between 0 and 1.

    Notes
    -----
    **Guarantee.** The volume of the cube, side to the power of the dimension, is the fraction.

    Examples
    --------
    Ten of a million points:

    >>> [round(neighbourhood_side(1e-5, d), 4) for d in (2, 7, 100)]
    [0.0032, 0.1931, 0.8913]
    """
    owner = "neighbourhood_side"
    share = fraction.check(owner, "fraction_of_points", fraction_of_points)
    return float(share ** (1 / integer(1).check(owner, "dimension", dimension)))


class _Contingency:
    """How many rows of each class are in each cluster, of pairs that occur."""

    def __init__(self, owner: str, classes: Any, clusters: Any) -> None:
        first, n_classes, _ = _coded(owner, "classes", classes)
        second, _, self._names = _coded(owner, "clusters", clusters)
        if first.size != second.size:
            raise ValueError(
                f"{owner}: classes has {first.size} rows and clusters {second.size}; give as many."
            )
        if not first.size:
            raise ValueError(f"{owner}: there must be at least one row.")
        self.n = first.size
        codes, self.counts = np.unique(second * n_classes + first, return_counts=True)
        self.cluster = codes // n_classes
        self.class_sizes, self.cluster_sizes = np.bincount(first), np.bincount(second)

    def by_cluster(self, values: np.ndarray) -> dict[Any, float]:
        return dict(zip(self._names, values.tolist(), strict=True))

    def pairs(self) -> tuple[int, int, int, int]:
        """Pairs of rows joined by both, by the classes, by the clusters, and all; exact."""
        joined = (_pairs(each) for each in (self.counts, self.class_sizes, self.cluster_sizes))
        return (*joined, math.comb(self.n, 2))  # type: ignore[return-value]


def _pairs(sizes: np.ndarray) -> int:
    """Pairs within groups of these sizes, in Python integers: products of them would wrap."""
    return int((sizes.astype(np.int64) * (sizes - 1) // 2).sum())


def _coded(owner: str, name: str, labels: Any) -> tuple[np.ndarray, int, list[Any]]:
    """Codes 0, 1, ... of labels, how many there are, and the labels."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
        values, codes = np.unique(labels, return_inverse=True)
        if labels.ndim != 1:
            raise ValueError(f"{owner}: {name} must be one column, not of shape {labels.shape}.")
        return codes, max(values.size, 1), values.tolist()
    try:
        column = pa.chunked_array(labels) if _is_arrow(labels) else pa.array(labels)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        found = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    except (pa.ArrowException, TypeError):
        raise TypeError(f"{owner}: {name} must be one column of labels of one type.") from None
    if found.null_count:
        row = found.is_null().index(True).as_py()
        raise NullValueError(f"{owner}: {name}: row {row} is null; drop or fill nulls first.")
    codes = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    used, codes = np.unique(codes, return_inverse=True)  # a dictionary may list unused labels
    names = found.dictionary.take(pa.array(used)).to_pylist()
    return codes, max(used.size, 1), names


def _is_arrow(labels: Any) -> bool:
    return hasattr(labels, "__arrow_c_stream__") and not isinstance(labels, pa.Array)

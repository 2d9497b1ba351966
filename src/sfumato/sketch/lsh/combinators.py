"""Products, powers, mixtures and weighted sums of kernels.

A product is estimated by hash functions that collide if all of their parts do. In a sum each row
belongs to one term.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.typing import Matrix
from sfumato.core.validation import between, checked, integer
from sfumato.sketch.lsh.base import (
    PART,
    Draw,
    Family,
    Points,
    Sum,
    WeightedRows,
    check_compatible,
    children,
    family,
    read_all,
)

__all__ = ["MixtureKernel", "PowerKernel", "ProductKernel", "WeightedSum"]

MOST_BITS = 62  # of combinations that can be numbered


@dataclass(frozen=True)
class _Pair:
    """Two families of points of the same dimension."""

    a: Family
    b: Family

    def __post_init__(self) -> None:
        checked(self, {"a": PART, "b": PART})
        check_compatible(type(self).__name__, [self.a, self.b])


class _Product(Family):
    """Hash functions that collide if all of their parts do; each part has its own draw."""

    def _factors(self) -> list[Family]:
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        return self._factors()[0].dimension

    @property
    def entries(self) -> int:
        """Number of float64 values of one row: the sum over all parts."""
        return sum(part.entries for part in self._factors())

    def read(self, owner: str, data: Any) -> Points:
        return read_all(self._factors(), owner, data)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        return _product([part.kernel(points, queries) for part in self._factors()])

    def buckets(self, draw: Draw) -> np.ndarray | None:
        counts = _numbering(self, draw)
        return None if counts is None else _product(counts)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        factors = self._factors()
        parts = zip(factors, points.parts, children(len(factors), draw), strict=True)
        codes = [part.codes(read, child, rows) for part, read, child in parts]
        counts = _numbering(self, draw)
        if counts is None:  # too many combinations to number: hash them
            return reduce(_paired, codes)
        number = codes[0]
        for count, code in zip(counts[1:], codes[1:], strict=True):
            number = number * count[rows] + code
        return number


@dataclass(frozen=True, repr=False)
class ProductKernel(_Pair, _Product):
    """AND of two families: points collide if they do so in both.

    Parameters
    ----------
    a : Family
        First factor; not a sum.
    b : Family
        Second factor, over points of the same dimension; not a sum.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) b(x, q); the hash functions of `a` and `b` are independent.
    An event changes one cell per row, so a release costs the same as with one kernel.

    References
    ----------
    .. [1] Indyk, Motwani. "Approximate Nearest Neighbors: Towards Removing the Curse of
       Dimensionality". STOC 1998. https://doi.org/10.1145/276698.276876
    .. [2] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, section 7.1 (combined and learned hash
       functions). https://arxiv.org/abs/2006.09352

    Examples
    --------
    >>> from sfumato.sketch.lsh.angular import Angular
    >>> near = ProductKernel(Angular(1, dimension=2), Angular(2, dimension=2))
    >>> near.kernel([[1, 0]], [[0, 1]])
    array([[0.125]])
    """

    name = "both"

    def _factors(self) -> list[Family]:
        return [self.a, self.b]


@dataclass(frozen=True, repr=False)
class PowerKernel(_Product):
    """AND of one family with itself: points collide if they do so in `times` independent hashes.

    Parameters
    ----------
    a : Family
        The kernel to raise; not a sum.
    times : int
        The power, 1 to 64. A larger power makes a narrower kernel.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) ** times. An event changes one cell per row, so a release
    costs the same as with `a` alone.

    References
    ----------
    .. [1] Indyk, Motwani. "Approximate Nearest Neighbors: Towards Removing the Curse of
       Dimensionality". STOC 1998. https://doi.org/10.1145/276698.276876

    Examples
    --------
    >>> from sfumato.sketch.lsh.jaccard import Jaccard
    >>> PowerKernel(Jaccard(), 3).kernel([[1, 2]], [[2]])
    array([[0.125]])
    """

    a: Family
    times: int
    name = "power"

    def __post_init__(self) -> None:
        checked(self, {"a": PART, "times": integer(1, 64)})

    @property
    def entries(self) -> int:
        """Number of float64 values of one row: `times` those of the family."""
        return self.times * self.a.entries

    def read(self, owner: str, data: Any) -> Points:
        points = self.a.read(owner, data)
        return Points((points,) * self.times, points.size, points.clipped)

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        return np.asarray(self.a.kernel(points, queries) ** self.times)

    def _factors(self) -> list[Family]:
        return [self.a] * self.times


@lru_cache(16)
def _numbering(family: _Product, draw: Draw) -> list[np.ndarray] | None:
    """Number of codes of each part in each row; None if combinations cannot be numbered."""
    factors = family._factors()
    parts = zip(factors, children(len(factors), draw), strict=True)
    counts = [part.buckets(child) for part, child in parts]
    known = [each for each in counts if each is not None]
    if len(known) < len(counts):
        return None
    # Logarithms: the combinations of 64 factors with 2**32 codes each are too many for a float.
    return known if sum(np.log2(each) for each in known).max() <= MOST_BITS else None


def _product(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The elementwise product of all arrays."""
    return np.asarray(reduce(np.multiply, factors))


def _paired(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One 64-bit code for each pair of codes; two pairs share one with probability 2**-64."""
    mixed = hash_column(one.reshape(-1)).view(np.int64).reshape(one.shape) ^ other
    return np.asarray(hash_column(mixed.reshape(-1)).view(np.int64).reshape(one.shape))


WEIGHT = between(-(2.0**53), 2.0**53)
WANTED = "WeightedSum: terms must be pairs (weight, family), at least one"


class _RowSplit(Sum):
    """Each row belongs to one term; terms get rows in proportion to the size of their weight."""

    def _terms(self) -> Sequence[tuple[float, Family]]:
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        return self._terms()[0][1].dimension

    @property
    def entries(self) -> int:
        """Number of float64 values of one row: those of the largest term."""
        return max(term.entries for _, term in self._terms())

    def read(self, owner: str, data: Any) -> Points:
        return read_all([term for _, term in self._terms()], owner, data)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        return np.asarray(sum(w * term.kernel(points, queries) for w, term in self._terms()))

    def buckets(self, draw: Draw) -> np.ndarray | None:
        counts = [term.buckets(child) for _, term, child, _ in self._owners(draw)]
        known = [each for each in counts if each is not None]
        return np.concatenate(known) if len(known) == len(counts) else None

    def shares(self, draw: Draw) -> list[WeightedRows]:
        return [
            WeightedRows(
                weight * inner.weight, slice(inner.rows.start + start, inner.rows.stop + start)
            )
            for weight, term, child, start in self._owners(draw)
            for inner in term.shares(child)
        ]

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        first, last, _ = rows.indices(draw.rows)
        parts = [np.empty((points.size, 0), np.int64)]
        for (_, term, child, start), read in zip(self._owners(draw), points.parts, strict=True):
            inside = slice(max(first - start, 0), min(last - start, child.rows))
            if inside.start < inside.stop:
                parts.append(term.codes(read, child, inside))
        return np.concatenate(parts, axis=1)

    def _owners(self, draw: Draw) -> Iterator[tuple[float, Family, Draw, int]]:
        """Every term with its weight, its draw, and the first of its rows."""
        terms, start = self._terms(), 0
        shared = _rows_per_term(type(self).__name__, draw.rows, [abs(w) for w, _ in terms])
        for number, ((weight, term), rows) in enumerate(zip(terms, shared, strict=True)):
            yield weight, term, draw.child(number, rows), start
            start += rows


@dataclass(frozen=True, repr=False)
class WeightedSum(_RowSplit):
    """Weighted sum of kernels: several families or bandwidths in one sketch.

    Parameters
    ----------
    terms : sequence of tuple (float, Family)
        Pairs (weight, family) over points of the same dimension, at least one. Weights are public,
        of either sign but not 0. A sketch needs at least one row per term.

    Notes
    -----
    **Guarantee.** The kernel is w_1 a_1 + w_2 a_2 + ... Terms get rows in proportion to the size of
    their weight, which minimises the variance of the noise of a release. A row belongs to one term,
    so an event changes one cell per row and a release costs the same as with one kernel.

    Examples
    --------
    >>> from sfumato.sketch.lsh.angular import Angular
    >>> two = WeightedSum([(0.75, Angular(1, dimension=2)), (0.25, Angular(4, dimension=2))])
    >>> two.kernel([[1, 0]], [[0, 1]])
    array([[0.390625]])
    """

    terms: Any
    name = "weighted sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _weighted(self.terms))
        check_compatible("WeightedSum", [term for _, term in self.terms])

    def _terms(self) -> Sequence[tuple[float, Family]]:
        return tuple(self.terms)


@dataclass(frozen=True, repr=False)
class MixtureKernel(_Pair, _RowSplit):
    """OR of two families: the probability that at least one of two independent hashes collides.

    Parameters
    ----------
    a : Family
        First kernel; not a sum.
    b : Family
        Second kernel, over points of the same dimension; not a sum.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) + b(x, q) - a(x, q) b(x, q). No single cell estimates it: a
    third of the rows estimates a, a third b and a third their product, and the means are added with
    weights 1, 1 and -1. A sketch needs at least 3 rows. An event changes one cell per row.

    References
    ----------
    .. [1] Indyk, Motwani. "Approximate Nearest Neighbors: Towards Removing the Curse of
       Dimensionality". STOC 1998. https://doi.org/10.1145/276698.276876
    .. [2] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, section 7.1 (combined and learned hash
       functions). https://arxiv.org/abs/2006.09352

    Examples
    --------
    >>> from sfumato.sketch.lsh.angular import Angular
    >>> one_of = MixtureKernel(Angular(1, dimension=2), Angular(2, dimension=2))
    >>> one_of.kernel([[1, 0]], [[0, 1]])
    array([[0.625]])
    """

    name = "either"

    def _terms(self) -> Sequence[tuple[float, Family]]:
        return (1.0, self.a), (1.0, self.b), (-1.0, ProductKernel(self.a, self.b))


def _weighted(terms: Any) -> tuple[tuple[float, Family], ...]:
    """The terms of a WeightedSum as a tuple of pairs (weight, family), checked."""
    if isinstance(terms, str | bytes | Mapping) or not isinstance(terms, Sequence) or not terms:
        raise ValueError(f"{WANTED}, not {type(terms).__name__}.")
    pairs = []
    for term in terms:
        if not isinstance(term, Sequence) or len(term) != 2:
            raise ValueError(f"{WANTED}, not {type(term).__name__}.")
        weight = WEIGHT.check("WeightedSum", "weight", term[0])
        if weight == 0:
            raise ValueError("WeightedSum: weight must not be 0; leave the term out.")
        pairs.append((weight, family("WeightedSum", "family", term[1])))
    return tuple(pairs)


def _rows_per_term(owner: str, rows: int, sizes: Sequence[float]) -> list[int]:
    """Rows of each term, at least one, as near to proportional as integers allow."""
    if rows < len(sizes):
        raise ValueError(f"{owner}: rows must be at least {len(sizes)}, one for each term.")
    total, counts, before = math.fsum(sizes), [], 0
    for number in range(len(sizes)):
        last = rows - (len(sizes) - number - 1)
        upto = round(rows * (math.fsum(sizes[: number + 1]) / total))
        upto = min(max(upto, before + 1), last)
        counts.append(upto - before)
        before = upto
    return counts

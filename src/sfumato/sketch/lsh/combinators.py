"""Products of kernels: points collide where they do in two families, or in one several times.

Sums of kernels with public weights of either sign: rows are shared out among the terms.
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
    Share,
    Sum,
    check_alike,
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
        check_alike(type(self).__name__, [self.a, self.b])


class _Product(Family):
    """Hashes that collide where all of their parts do; each part has a draw of its own."""

    def _factors(self) -> list[Family]:
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        return self._factors()[0].dimension

    @property
    def entries(self) -> int:
        """Those of all parts."""
        return sum(part.entries for part in self._factors())

    def read(self, owner: str, data: Any) -> Points:
        """The points as each part reads them; clipped are those of the part that clips most.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            The points as each part reads them; clipped are those of the part that clips most.
        """
        return read_all(self._factors(), owner, data)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        """The product of the kernels of all parts.

        Parameters
        ----------
        points : object
            TODO.
        queries : object
            TODO.

        Returns
        -------
        ndarray
            The product of the kernels of all parts.
        """
        return _product([part.kernel(points, queries) for part in self._factors()])

    def buckets(self, draw: Draw) -> np.ndarray | None:
        """All combinations of codes, or None where they cannot be numbered.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray or None
            All combinations of codes, or None where they cannot be numbered.
        """
        counts = _numbering(self, draw)
        return None if counts is None else _product(counts)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """The number of the combination, or its hash where combinations are not numbered.

        Parameters
        ----------
        points : Points
            TODO.
        draw : Draw
            TODO.
        rows : slice
            TODO.

        Returns
        -------
        ndarray
            The number of the combination, or its hash where combinations are not numbered.
        """
        factors = self._factors()
        parts = zip(factors, points.parts, children(len(factors), draw), strict=True)
        codes = [part.codes(read, child, rows) for part, read, child in parts]
        counts = _numbering(self, draw)
        if counts is None:
            return reduce(_paired, codes)
        number = codes[0]
        for count, code in zip(counts[1:], codes[1:], strict=True):
            number = number * count[rows] + code
        return number


@dataclass(frozen=True, repr=False)
class ProductKernel(_Pair, _Product):
    """AND: points collide where they do in a and in b, whose hashes are independent.

    Parameters
    ----------
    a : Family
        Families of points of the same dimension, neither of them a sum.
    b : Family
        Families of points of the same dimension, neither of them a sum.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) b(x, q); an event still changes one cell of each row.

    References
    ----------
    .. [1] Indyk and Motwani 1998; Coleman and Shrivastava 2021, section 7.1.

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
    """AND of one family with itself: points collide where they do in `times` independent hashes.

    Parameters
    ----------
    a : Family
        A family that is not a sum.
    times : int
        1 to 64.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) ** times; an event still changes one cell of each row.

    References
    ----------
    .. [1] Indyk and Motwani 1998.

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
        """Those of one hash, so many times; not one by one, which powers of powers would forbid."""
        return self.times * self.a.entries

    def read(self, owner: str, data: Any) -> Points:
        """The points as the family reads them, once for all hashes.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            The points as the family reads them, once for all hashes.
        """
        points = self.a.read(owner, data)
        return Points((points,) * self.times, points.size, points.clipped)

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        """The kernel of the family to the power of `times`.

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.

        Returns
        -------
        ndarray
            The kernel of the family to the power of `times`.
        """
        return np.asarray(self.a.kernel(points, queries) ** self.times)

    def _factors(self) -> list[Family]:
        return [self.a] * self.times


@lru_cache(16)
def _numbering(family: _Product, draw: Draw) -> list[np.ndarray] | None:
    """How many codes each part has in each row; None where combinations cannot be numbered."""
    factors = family._factors()
    parts = zip(factors, children(len(factors), draw), strict=True)
    counts = [part.buckets(child) for part, child in parts]
    known = [each for each in counts if each is not None]
    if len(known) < len(counts):
        return None
    # Logarithms: no float holds the combinations of 64 factors with 2**32 codes each.
    return known if sum(np.log2(each) for each in known).max() <= MOST_BITS else None


def _product(factors: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(reduce(np.multiply, factors))


def _paired(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One 64-bit code for two; other pairs have the same with p = 2**-64."""
    mixed = hash_column(one.reshape(-1)).view(np.int64).reshape(one.shape) ^ other
    return np.asarray(hash_column(mixed.reshape(-1)).view(np.int64).reshape(one.shape))


WEIGHT = between(-(2.0**53), 2.0**53)
WANTED = "WeightedSum: terms must be pairs (weight, family), at least one"


class _Shared(Sum):
    """Each row belongs to one term; terms have rows in proportion to the size of their weight."""

    def _terms(self) -> Sequence[tuple[float, Family]]:
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        return self._terms()[0][1].dimension

    @property
    def entries(self) -> int:
        """Those of the largest term, which every row could belong to."""
        return max(term.entries for _, term in self._terms())

    def read(self, owner: str, data: Any) -> Points:
        """The points as each term reads them; clipped are those of the term that clips most.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            The points as each term reads them; clipped are those of the term that clips most.
        """
        return read_all([term for _, term in self._terms()], owner, data)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        """The weighted sum of the kernels.

        Parameters
        ----------
        points : object
            TODO.
        queries : object
            TODO.

        Returns
        -------
        ndarray
            The weighted sum of the kernels.
        """
        return np.asarray(sum(w * term.kernel(points, queries) for w, term in self._terms()))

    def buckets(self, draw: Draw) -> np.ndarray | None:
        """Those of the term that each row belongs to; None where one of them is not bounded.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray or None
            Those of the term that each row belongs to; None where one of them is not bounded.
        """
        counts = [term.buckets(child) for _, term, child, _ in self._owners(draw)]
        known = [each for each in counts if each is not None]
        return np.concatenate(known) if len(known) == len(counts) else None

    def shares(self, draw: Draw) -> list[Share]:
        """From which row to which each term reaches; a term that is a sum has shares of its own.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        list
            TODO.
        """
        return [
            Share(weight * inner.weight, slice(inner.rows.start + start, inner.rows.stop + start))
            for weight, term, child, start in self._owners(draw)
            for inner in term.shares(child)
        ]

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """Each row's code is that of the term that it belongs to.

        Parameters
        ----------
        points : Points
            TODO.
        draw : Draw
            TODO.
        rows : slice
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        first, last, _ = rows.indices(draw.rows)
        parts = [np.empty((points.size, 0), np.int64)]
        for (_, term, child, start), read in zip(self._owners(draw), points.parts, strict=True):
            inside = slice(max(first - start, 0), min(last - start, child.rows))
            if inside.start < inside.stop:
                parts.append(term.codes(read, child, inside))
        return np.concatenate(parts, axis=1)

    def _owners(self, draw: Draw) -> Iterator[tuple[float, Family, Draw, int]]:
        """Every term with its weight, its own draw, and the first of its rows."""
        terms, start = self._terms(), 0
        shared = _shared_out(type(self).__name__, draw.rows, [abs(w) for w, _ in terms])
        for number, ((weight, term), rows) in enumerate(zip(terms, shared, strict=True)):
            yield weight, term, draw.child(number, rows), start
            start += rows


@dataclass(frozen=True, repr=False)
class WeightedSum(_Shared):
    """w_1 a_1 + w_2 a_2 + ...: kernels of several kinds or bandwidths, with public weights.

    Parameters
    ----------
    terms : object
        Pairs (weight, family) of points of the same dimension, weights of either sign but not 0. A
        sketch needs at least a row for each term.

    Notes
    -----
    **Guarantee.** The kernel is the weighted sum. Rows are shared out in proportion to |w|, which
    gives the noise of a release the least variance; a row belongs to one term, so an event still
    changes one cell of each row, and a release costs what it costs without a sum.

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
        check_alike("WeightedSum", [term for _, term in self.terms])

    def _terms(self) -> Sequence[tuple[float, Family]]:
        return tuple(self.terms)


@dataclass(frozen=True, repr=False)
class MixtureKernel(_Pair, _Shared):
    """OR: a + b - a b, the chance that of two independent hashes, of a and of b, one collides.

    Parameters
    ----------
    a : Family
        As for `ProductKernel`. A sketch needs at least 3 rows.
    b : Family
        As for `ProductKernel`. A sketch needs at least 3 rows.

    Notes
    -----
    **Guarantee.** The kernel is a(x, q) + b(x, q) - a(x, q) b(x, q). No single cell holds it: a
    third of the rows estimates a, a third b and a third both, and their means are added with
    weights 1, 1 and -1; an event still changes one cell of each row.

    References
    ----------
    .. [1] Indyk and Motwani 1998; Coleman and Shrivastava 2021, section 7.1.

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


def _shared_out(owner: str, rows: int, sizes: Sequence[float]) -> list[int]:
    """So many rows for each term, one at least, as near to proportion as integers are."""
    if rows < len(sizes):
        raise ValueError(f"{owner}: rows must be at least {len(sizes)}, one for each term.")
    total, shared, before = math.fsum(sizes), [], 0
    for number in range(len(sizes)):
        last = rows - (len(sizes) - number - 1)
        upto = round(rows * (math.fsum(sizes[: number + 1]) / total))
        upto = min(max(upto, before + 1), last)
        shared.append(upto - before)
        before = upto
    return shared

"""Products of kernels: points collide where they do in two families, or in one several times."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from sfumato._require import checked, whole
from sfumato.hashing import hash_column
from sfumato.sketch.lsh._family import Draw, Family, Points
from sfumato.sketch.lsh._parts import PART, check_alike, children, read_all

__all__ = ["Both", "Power"]

MOST_BITS = 62  # of combinations that can be numbered


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
        """The points as each part reads them; clipped are those of the part that clips most."""
        return read_all(self._factors(), owner, data)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        """The product of the kernels of all parts."""
        return _product([part.kernel(points, queries) for part in self._factors()])

    def buckets(self, draw: Draw) -> np.ndarray | None:
        """All combinations of codes, or None where they cannot be numbered."""
        counts = _numbering(self, draw)
        return None if counts is None else _product(counts)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """The number of the combination, or its hash where combinations are not numbered."""
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


@dataclass(frozen=True)
class Both(_Product):
    """AND: points collide where they do in a and in b, whose hashes are independent.

    Guarantee: the kernel is a(x, q) b(x, q); an event still changes one cell of each row.
    Parameters: a and b, families of points of the same dimension, neither of them a sum.

    >>> from sfumato.sketch.lsh.angular import Angular
    >>> near = Both(Angular(1, dimension=2), Angular(2, dimension=2))
    >>> near.kernel([[1, 0]], [[0, 1]])
    array([[0.125]])

    Indyk and Motwani 1998; Coleman and Shrivastava 2021, section 7.1.
    """

    a: Family
    b: Family
    name = "both"

    def __post_init__(self) -> None:
        checked(self, {"a": PART, "b": PART})
        check_alike("Both", [self.a, self.b])

    def _factors(self) -> list[Family]:
        return [self.a, self.b]


@dataclass(frozen=True)
class Power(_Product):
    """AND of one family with itself: points collide where they do in `times` independent hashes.

    Guarantee: the kernel is a(x, q) ** times; an event still changes one cell of each row.
    Parameters: a, a family that is not a sum; times, 1 to 64.

    >>> from sfumato.sketch.lsh.jaccard import Jaccard
    >>> Power(Jaccard(), 3).kernel([[1, 2]], [[2]])
    array([[0.125]])

    Indyk and Motwani 1998.
    """

    a: Family
    times: int
    name = "power"

    def __post_init__(self) -> None:
        checked(self, {"a": PART, "times": whole(1, 64)})

    @property
    def entries(self) -> int:
        """Those of one hash, so many times; not one by one, which powers of powers would forbid."""
        return self.times * self.a.entries

    def read(self, owner: str, data: Any) -> Points:
        """The points as the family reads them, once for all hashes."""
        points = self.a.read(owner, data)
        return Points((points,) * self.times, points.size, points.clipped)

    def kernel(self, points: Any, queries: Any) -> np.ndarray:
        """The kernel of the family to the power of `times`."""
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

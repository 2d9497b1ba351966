"""Angular: sign-of-projection hash functions, which collide more often at smaller angles."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.core.arrays import rows as rows_of
from sfumato.core.typing import Matrix
from sfumato.core.validation import checked, integer
from sfumato.sketch.kernel_sums.stratified_sampling import normal_rows
from sfumato.sketch.lsh.base import Draw, Family, Points, children

__all__ = ["Angular"]

EXACT = 53  # bits of the integers that are exact in float64
LARGEST = 4  # bits before the point of a direction's numbers; beyond 16 with p < 1e-56


@dataclass(frozen=True, repr=False)
class Angular(Family):
    """Vectors by the angle between them, whatever their lengths.

    Parameters
    ----------
    bits : int
        Bits of a code, 1 to 32; there are 2**bits codes. More bits make a narrower kernel.
    dimension : int, default=0
        Number of coordinates of a vector, 1 to 2**20; required, since 0 is refused. All must be
        finite.

    Notes
    -----
    **Guarantee.** A code is the signs of w_1 . x to w_bits . x for independent Gaussian directions
    w, so P(code(x) = code(q)) = (1 - angle / pi) ** bits with the angle from 0 to pi.

    Vectors are rounded to multiples of 2**-24 (at dimension 2; 2**-15 at 2**20) of their largest
    coordinate, and directions likewise, so that every sum of products is exact: all machines give
    the same code. The zero vector has no angle; its code is all ones, its kernel with another
    vector 2**-bits, as at a right angle, and with another zero vector 1.

    References
    ----------
    .. [1] Goemans, Williamson. "Improved approximation algorithms for maximum cut and
       satisfiability problems using semidefinite programming". Journal of the ACM 42, 1995, Lemma
       3.2 (probability that a random hyperplane separates two vectors).
       https://doi.org/10.1145/227683.227684
    .. [2] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002, section
       3 (random hyperplanes). https://doi.org/10.1145/509907.509965

    Examples
    --------
    >>> Angular(bits=2, dimension=2).kernel([[1, 0]], [[2, 0], [0, 1], [-1, 0]])
    array([[1.  , 0.25, 0.  ]])
    """

    bits: int
    dimension: int = 0  # the base declares a property
    name = "angular"

    def __post_init__(self) -> None:
        checked(self, {"bits": integer(1, 32), "dimension": integer(1, 2**20)})

    @property
    def entries(self) -> int:
        """Number of float64 values of one row: a direction for each bit."""
        return self.bits * self.dimension

    def read(self, owner: str, data: Any) -> Points:
        vectors = rows_of(owner, data, self.dimension)
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        vector_bits, _ = self._precision
        shift = vector_bits - np.frexp(largest)[1]  # by powers of two, which round nothing
        return Points((np.rint(np.ldexp(vectors, shift[:, None])),), len(vectors))

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        here, there = (_unit(self.read(self.name, each).parts[0]) for each in (points, queries))
        angles = np.arccos(np.clip(here @ there.T, -1.0, 1.0))
        angles[np.ix_(~here.any(axis=1), ~there.any(axis=1))] = 0.0  # zeros have one code
        return np.asarray((1 - angles / math.pi) ** self.bits)

    def buckets(self, draw: Draw) -> np.ndarray:
        """Count the codes of each row, which are 2**bits.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        ndarray
            2**bits, once per row.
        """
        return np.full(draw.rows, 2**self.bits, np.int64)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        steps, directions = points.parts[0], drawn_directions(self, draw)
        out = np.zeros((points.size, len(range(*rows.indices(draw.rows)))), np.int64)
        for bit in range(self.bits):  # 1 where the product with this bit's direction is >= 0
            out |= (steps @ directions[bit, rows].T >= 0).astype(np.int64) << bit
        return out

    @property
    def _precision(self) -> tuple[int, int]:
        """Bits of a vector's coordinates, and fractional bits of a direction's."""
        free = EXACT - LARGEST - math.ceil(math.log2(self.dimension))
        return free - free // 2, free // 2


@lru_cache(2)  # a table requests a few rows at a time
def drawn_directions(family: Angular, draw: Draw) -> np.ndarray:
    """Integer directions of shape (bits, rows, dimension), as float64."""
    out = np.empty((family.bits, draw.rows, family.dimension))
    for bit, child in enumerate(children(family.bits, draw)):
        normal, _ = normal_rows(child.rows, family.dimension, child.seed, child.strata)
        inside = np.clip(normal, -(2.0**LARGEST), 2.0**LARGEST)
        np.rint(inside * 2.0 ** family._precision[1], out=out[bit])
    return out


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of zeros stay as they are."""
    lengths = np.sqrt((vectors**2).sum(axis=1))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0)[:, None])

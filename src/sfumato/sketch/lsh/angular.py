"""Angular: hash functions that collide the more often, the smaller the angle of two vectors."""

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

EXACT = 53  # bits of the integers that a float holds
LARGEST = 4  # bits before the point of a direction's numbers; beyond 16 with p < 1e-56


@dataclass(frozen=True, repr=False)
class Angular(Family):
    """Vectors by their angle alone, whatever their length.

    bits of a code, 1 to 32, which has 2**bits values;

    Parameters
    ----------
    bits : int
        TODO.
    dimension : int, default=0
        Numbers in a vector, up to 2**20. Numbers that are not finite raise.

    Notes
    -----
    **Guarantee.** A code is the signs of w_1 . x to w_bits . x for independent Gaussian directions,
    so P(code(x) = code(q)) = (1 - angle / pi) ** bits, where angle is between 0 and pi. A vector is
    rounded to whole steps of 2**-24 (d = 2; 2**-15 at d = 2**20) of its largest number, and so are
    directions, so that every sum of products is exact: any machine gives the same code. A vector of
    zeros, which has no angle, gets the one code of all ones, and so is at a right angle to any
    other: its kernel is 2**-bits, and 1 with another vector of zeros.

    References
    ----------
    .. [1] Goemans and Williamson 1995, lemma 3.2; Charikar 2002, section 3.

    Examples
    --------
    >>> Angular(bits=2, dimension=2).kernel([[1, 0]], [[2, 0], [0, 1], [-1, 0]])
    array([[1.  , 0.25, 0.  ]])
    """

    bits: int
    dimension: int = 0  # the base declares a property; every vector must have so many numbers
    name = "angular"

    def __post_init__(self) -> None:
        checked(self, {"bits": integer(1, 32), "dimension": integer(1, 2**20)})

    @property
    def entries(self) -> int:
        """A direction for each bit."""
        return self.bits * self.dimension

    def read(self, owner: str, data: Any) -> Points:
        """Vectors in whole steps, as any container of rows of numbers holds them.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            TODO.
        """
        vectors = rows_of(owner, data, self.dimension)
        largest = np.abs(vectors).max(axis=1, initial=0.0)
        vector_bits, _ = self._precision
        shift = vector_bits - np.frexp(largest)[1]  # by powers of two, which round nothing
        return Points((np.rint(np.ldexp(vectors, shift[:, None])),), len(vectors))

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        """(1 - angle / pi) ** bits for every vector (down) and query (across).

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        here, there = (_unit(self.read(self.name, each).parts[0]) for each in (points, queries))
        angles = np.arccos(np.clip(here @ there.T, -1.0, 1.0))
        angles[np.ix_(~here.any(axis=1), ~there.any(axis=1))] = 0.0  # they have the same code
        return np.asarray((1 - angles / math.pi) ** self.bits)

    def buckets(self, draw: Draw) -> np.ndarray:
        """Every row has 2**bits codes.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        return np.full(draw.rows, 2**self.bits, np.int64)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """Bit b of a code is 1 where the product with direction b of the row is not negative.

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
        steps, directions = points.parts[0], drawn_directions(self, draw)
        out = np.zeros((points.size, len(range(*rows.indices(draw.rows)))), np.int64)
        for bit in range(self.bits):
            out |= (steps @ directions[bit, rows].T >= 0).astype(np.int64) << bit
        return out

    @property
    def _precision(self) -> tuple[int, int]:
        """Bits of a vector's numbers, and bits of a direction's behind the point."""
        free = EXACT - LARGEST - math.ceil(math.log2(self.dimension))
        return free - free // 2, free // 2


@lru_cache(2)  # a table asks for a few rows at a time
def drawn_directions(family: Angular, draw: Draw) -> np.ndarray:
    """Integers for each bit, row and coordinate."""
    out = np.empty((family.bits, draw.rows, family.dimension))
    for bit, child in enumerate(children(family.bits, draw)):
        normal, _ = normal_rows(child.rows, family.dimension, child.seed, child.strata)
        inside = np.clip(normal, -(2.0**LARGEST), 2.0**LARGEST)
        np.rint(inside * 2.0 ** family._precision[1], out=out[bit])
    return out


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((vectors**2).sum(axis=1))
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0)[:, None])

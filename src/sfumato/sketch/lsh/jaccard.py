"""Jaccard: hash functions of sets that collide as often as the sets are alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.ids import plain_numbers
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import checked, integer
from sfumato.kernels.sketch import minhash as set_codes
from sfumato.kernels.sketch.minhash import ROWS
from sfumato.sketch.lsh.base import Draw, Family, Points
from sfumato.sketch.similarity.token_sets import Sets, jaccard, jaccard_sums, sets_of

__all__ = ["Jaccard"]


@dataclass(frozen=True, repr=False)
class Jaccard(Family):
    """Sets by the share of members that they have in common.

    Parameters
    ----------
    hashes : int, default=1
        1 to 64. Sets come as a pair (offsets, members), as rows of a SciPy sparse matrix, or as a
        column of lists (Arrow, pandas, polars, a list of lists); members are whole numbers or text.

    Notes
    -----
    **Guarantee.** A code is made of the first members of the set in `hashes` random orders, so
    P(code(A) = code(B)) = (|A and B| / |A or B|) ** hashes, up to hashes / 2**32 for codes and
    members of 32 bits. Two empty sets are equal (1), an empty and a full one have nothing in common
    (0). Rows are independent; strata make no difference.

    References
    ----------
    .. [1] Broder 1997; Broder, Charikar, Frieze and Mitzenmacher 2000.

    Examples
    --------
    >>> Jaccard().kernel([[1, 2, 3], []], [[2, 3, 4], []])
    array([[0.5, 0. ],
           [0. , 1. ]])
    """

    hashes: int = 1
    name = "jaccard/2"  # in files: a member has one hash, whatever its type

    def __post_init__(self) -> None:
        checked(self, {"hashes": integer(1, 64)})

    @property
    def dimension(self) -> int:
        return 0

    def read(self, owner: str, data: Any) -> Points:
        """The sets of any container.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            The sets of any container.
        """
        sets = sets_of(owner, data)
        return Points((sets,), len(sets))

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        """The Jaccard similarity to the power of `hashes`, for sets (down) and queries (across).

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.

        Returns
        -------
        ndarray
            The Jaccard similarity to the power of `hashes`, for sets (down) and queries (across).
        """
        return np.asarray(jaccard(_sets(points), _sets(queries)) ** self.hashes)

    def sums(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        """The exact kernel sum over all sets at every query; what nothing shares takes no room.

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.
        weights : array_like or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The exact kernel sum over all sets at every query; what nothing shares takes no room.
        """
        sets = _sets(points)
        weights = np.ones(len(sets)) if weights is None else plain_numbers(weights)
        return jaccard_sums(sets, _sets(queries), weights, self.hashes)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """32 bits of each set in each of the rows.

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
        sets: Sets = points.parts[0]
        first, last, _ = rows.indices(draw.rows)
        members = sets.hashed(draw.seed)
        out = np.empty((last - first, points.size), np.int64)
        for start in range(0, last - first, ROWS):
            words = _words(draw, self.hashes, first + start)
            set_codes.minima(members, sets.bounds, words, out[start : start + ROWS])
        return out.T


def _sets(data: Any) -> Sets:
    return sets_of("Jaccard", data)


def _words(draw: Draw, hashes: int, start: int) -> np.ndarray:
    """What draws the orders of rows start to start + 16: k, a, b and c of each hash and row."""
    # The seed is not that of the members: a member that is also a row's k would always be first.
    first = 2 * hashes * start
    wide = hash_column(range(first, first + 2 * hashes * ROWS), draw.child(0).seed)
    words = wide.astype("<u8").view("<u4").astype(np.uint32).reshape(ROWS, hashes, 4)
    words[:, :, 1:] |= np.uint32(1)
    return np.ascontiguousarray(words.transpose(1, 2, 0))

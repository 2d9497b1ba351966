"""Jaccard: MinHash functions of sets, which collide with probability equal to the similarity."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.ids import plain_numbers
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import checked, integer
from sfumato.kernels.sketch import minhash as set_codes
from sfumato.kernels.sketch.layout import ROWS
from sfumato.sketch.lsh.base import Draw, Family, Points
from sfumato.sketch.similarity.token_sets import Sets, jaccard, jaccard_sums, sets_of

__all__ = ["Jaccard"]


@dataclass(frozen=True, repr=False)
class Jaccard(Family):
    """Sets, by a power of their Jaccard similarity.

    Use it for profiles of users, adjacency lists of nodes or shingles of documents.

    Parameters
    ----------
    hashes : int, default=1
        Number of MinHash values in a code, 1 to 64; the power of the similarity.

    Notes
    -----
    **Guarantee.** A code combines the minima of the set under `hashes` random orders, so
    ``P(code(A) = code(B)) = (|A and B| / |A or B|) ** hashes``, up to hashes / 2**32 since codes
    and members have 32 bits. Two empty sets have kernel 1, an empty and a non-empty one 0. Rows are
    independent; `strata` makes no difference.

    Sets are given as a pair (offsets, members), as rows of a SciPy sparse matrix, or as a column of
    lists (Arrow, pandas, polars, a list of lists). Members are integers or text.

    References
    ----------
    .. [1] Broder. "On the resemblance and containment of documents". SEQUENCES 1997.
       https://doi.org/10.1109/SEQUEN.1997.666900
    .. [2] Broder, Charikar, Frieze, Mitzenmacher. "Min-wise independent permutations". Journal of
       Computer and System Sciences 60, 2000. https://doi.org/10.1006/jcss.1999.1690

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
        sets = sets_of(owner, data)
        return Points((sets,), len(sets))

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        return np.asarray(jaccard(_sets(points), _sets(queries)) ** self.hashes)

    def sums(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        sets = _sets(points)
        weights = np.ones(len(sets)) if weights is None else plain_numbers(weights)
        # Only pairs of sets with a common member are stored.
        return jaccard_sums(sets, _sets(queries), weights, self.hashes)

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        sets: Sets = points.parts[0]
        first, last, _ = rows.indices(draw.rows)
        members = sets.hashed(draw.seed)
        out = np.empty((last - first, points.size), np.int64)
        for start in range(0, last - first, ROWS):
            words = _words(draw, self.hashes, first + start)
            set_codes.minima(members, sets.bounds, words, out[start : start + ROWS])
        return out.T


def _sets(data: Any) -> Sets:
    """Sets from any container; errors name Jaccard."""
    return sets_of("Jaccard", data)


def _words(draw: Draw, hashes: int, start: int) -> np.ndarray:
    """Random words of rows start to start + 16: k, a, b and c of each hash and row."""
    # The seed is not that of the members: a member that is also a row's k would always be first.
    first = 2 * hashes * start
    wide = hash_column(range(first, first + 2 * hashes * ROWS), draw.child(0).seed)
    words = wide.astype("<u8").view("<u4").astype(np.uint32).reshape(ROWS, hashes, 4)
    words[:, :, 1:] |= np.uint32(1)
    return np.ascontiguousarray(words.transpose(1, 2, 0))

"""Lifting vectors to a sphere, so that angles rank them as inner products do."""

from typing import NamedTuple, Self

import numpy as np

__all__ = ["LEAN", "Lift", "lengths"]

SAMPLE = 1 << 17  # rows whose lengths decide the radius
BLOCK = 1 << 13  # rows that are measured at a time
WITHIN = 0.99  # the share of vectors within the radius: a few long ones would flatten all the rest
LEAN = 0.2  # measured on factors of films, for codes and bands alike


class Lift(NamedTuple):
    """A centre, and the radius m of the ball around it that holds 99 of 100 vectors.

    Guarantee: for y = x - centre no longer than m, the cosine between (q, 0) and the unit vector
    (y / m, sqrt(1 - |y|^2 / m^2)) is <q, x - centre> / (|q| m), and so rises with <q, x>. Of a
    longer y the direction is taken, whose cosine is smaller than that, and still as large as any
    vector's in the ball that points there. `asked` leans queries by LEAN away from the axis that
    was added, towards long vectors: those with the largest products are near the sphere's equator,
    and most others are not, so that fewer of these come as near.

    >>> Lift(np.zeros(2), 5.0).points(np.array([[3.0, 0.0], [0.0, 9.0]]))
    array([[0.6, 0. , 0.8],
           [0. , 1. , 0. ]], dtype=float32)

    Neyshabur and Srebro 2015, section 4 (simple-LSH); moving the vectors first changes all products
    of a query alike, so a centre and a ball that suit most of them make the angles tell more.
    """

    centre: np.ndarray
    radius: float

    @classmethod
    def of(cls, vectors: np.ndarray) -> Self:
        """The lift for vectors like these; of equal ones the radius is their length, or else 1."""
        centre = vectors.mean(0, dtype=np.float64)
        some = vectors[:: -(-len(vectors) // SAMPLE)]
        parts = range(0, len(some), BLOCK)
        far = np.concatenate([lengths(some[at : at + BLOCK] - centre) for at in parts])
        radius = float(np.quantile(far, WITHIN)) or float(lengths(centre[None])[0])
        return cls(centre, radius or 1.0)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors lifted, float32, with one column more."""
        moved = vectors - self.centre
        far = lengths(moved)
        out = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
        out[:, :-1] = moved / np.maximum(far, self.radius)[:, None]
        out[:, -1] = np.sqrt(1 - np.square(np.minimum(far / self.radius, 1)))
        return out

    def reach(self, vectors: np.ndarray) -> np.ndarray:
        """What (q, 0) times a point is to be multiplied by for the product with x - centre."""
        return np.asarray(np.maximum(lengths(vectors - self.centre), self.radius))

    def along(self, queries: np.ndarray) -> np.ndarray:
        """The products of queries with the centre, float64, in which no other row has a part."""
        return np.asarray(np.multiply(queries, self.centre, dtype=np.float64).sum(axis=1))

    def asked(self, queries: np.ndarray, lean: float = LEAN) -> np.ndarray:
        """Queries as they meet lifted vectors."""
        last = -lean * lengths(queries)[:, None]
        return np.concatenate([queries, last.astype(queries.dtype)], axis=1)


def lengths(vectors: np.ndarray) -> np.ndarray:
    """The Euclidean length of each row in float64, summed in an order that no other row changes."""
    return np.asarray(np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1)))

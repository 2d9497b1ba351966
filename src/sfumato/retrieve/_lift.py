"""Lifting vectors to a sphere, so that angles rank them as inner products do."""

from typing import NamedTuple, Self

import numpy as np

from sfumato.retrieve._space import Space, lengths

__all__ = ["Lift"]

SAMPLE = 1 << 17  # rows whose lengths decide the radius
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
        """The lift for vectors like these."""
        centre = vectors.mean(0, dtype=np.float64)
        some = vectors[:: -(-len(vectors) // SAMPLE)]
        return cls(centre, float(np.quantile(lengths(some - centre), WITHIN)) or 1.0)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors lifted, float32, with one column more."""
        return Space("inner", self.radius).points(vectors - self.centre)

    def asked(self, queries: np.ndarray) -> np.ndarray:
        """Queries as they meet lifted vectors."""
        lean = -LEAN * lengths(queries)[:, None]
        return np.concatenate([queries, lean.astype(queries.dtype)], axis=1)

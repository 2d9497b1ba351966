"""The vectors that an index encodes: unit vectors, or vectors lifted to a sphere."""

import math
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.arrays import rows
from sfumato.core.validation import one_of
from sfumato.kernels.retrieve import sign_codes as sides

__all__ = [
    "LEAN",
    "METRIC",
    "Lift",
    "Paraboloid",
    "Space",
    "check_vectors",
    "checked_matrix",
    "is_vector",
    "lengths",
    "matrix",
]

SAMPLE = 1 << 17  # rows whose lengths decide the radius
BLOCK = 1 << 13  # rows that are measured at a time
WITHIN = 0.99  # the fraction of vectors within the radius: a few long ones would flatten all others
LEAN = 0.2  # measured on factors of films, for codes and bands


class Lift(NamedTuple):
    """Maps vectors to a sphere, so that angles rank them as inner products do.

    Fields: centre, and radius m of the ball around it that contains 99 % of the vectors.

    **Guarantee.** For y = x - centre no longer than m, the cosine between (q, 0) and the unit
    vector (y / m, sqrt(1 - |y|^2 / m^2)) is <q, x - centre> / (|q| m), and so increases with
    <q, x>. A longer y is replaced by its direction, whose cosine is smaller than that, and still
    as large as that of any vector of the ball in this direction. `lifted_queries` tilts queries by
    LEAN away from the added axis, towards long vectors: those with the largest products are near
    the sphere's equator and most others are not, so fewer of these come as near.

    >>> Lift(np.zeros(2), 5.0).points(np.array([[3.0, 0.0], [0.0, 9.0]]))
    array([[0.6, 0. , 0.8],
           [0. , 1. , 0. ]], dtype=float32)

    Neyshabur and Srebro 2015, section 4 (simple-LSH). Centring first changes all products of a
    query by the same amount, and a tighter ball makes angles more informative.
    """

    centre: np.ndarray
    radius: float

    @classmethod
    def of(cls, vectors: np.ndarray) -> Self:
        """Fit the lift to vectors; if all are equal, the radius is their length, or 1."""
        centre = vectors.mean(0, dtype=np.float64)
        some = vectors[:: -(-len(vectors) // SAMPLE)]
        parts = range(0, len(some), BLOCK)
        far = np.concatenate([lengths(some[at : at + BLOCK] - centre) for at in parts])
        radius = float(np.quantile(far, WITHIN)) or float(lengths(centre[None])[0])
        return cls(centre, radius or 1.0)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Lift vectors: float32, with one column more."""
        moved = vectors - self.centre
        far = lengths(moved)
        out = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
        out[:, :-1] = moved / np.maximum(far, self.radius)[:, None]
        out[:, -1] = np.sqrt(1 - np.square(np.minimum(far / self.radius, 1)))
        return out

    def scales(self, vectors: np.ndarray) -> np.ndarray:
        """Factor by which (q, 0) times a lifted point gives the product with x - centre."""
        return np.asarray(np.maximum(lengths(vectors - self.centre), self.radius))

    def along(self, queries: np.ndarray) -> np.ndarray:
        """Products of queries with the centre, float64, each independent of the other rows."""
        return np.asarray(np.multiply(queries, self.centre, dtype=np.float64).sum(axis=1))

    def lifted_queries(self, queries: np.ndarray, lean: float = LEAN) -> np.ndarray:
        """Lift queries, for comparison with lifted vectors."""
        last = -lean * lengths(queries)[:, None]
        return np.concatenate([queries, last.astype(queries.dtype)], axis=1)


def lengths(vectors: np.ndarray) -> np.ndarray:
    """Euclidean length of each row in float64, independent of the other rows."""
    return np.asarray(np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1)))


class Paraboloid(NamedTuple):
    """Maps vectors to a paraboloid, so that inner products rank them as distances do.

    Fields: centre, and scale m, the root of the mean squared distance from it.

    **Guarantee.** For y = x - centre and r = q - centre, the product of (r, m) with
    (y, -|y|^2 / (2 m)) is (|r|^2 - |q - x|^2) / 2, and so increases as x comes nearer to q.

    >>> Paraboloid(np.zeros(2), 1.0).points(np.array([[1.0, 2.0]]))
    array([[ 1. ,  2. , -2.5]], dtype=float32)
    """

    centre: np.ndarray
    scale: float

    @classmethod
    def of(cls, vectors: np.ndarray) -> Self:
        """Fit the paraboloid to vectors; if all are equal, the scale is 1."""
        centre = vectors.mean(0, dtype=np.float64)
        some = vectors[:: -(-len(vectors) // SAMPLE)]
        parts = [lengths(some[at : at + BLOCK] - centre) for at in range(0, len(some), BLOCK)]
        return cls(centre, float(np.sqrt(np.square(np.concatenate(parts)).mean())) or 1.0)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors on the paraboloid: float32, with one column more."""
        return self.raised(vectors - self.centre)

    def raised(self, moved: np.ndarray) -> np.ndarray:
        """Points of vectors that the centre was subtracted from."""
        below = np.square(lengths(moved)) / (2 * self.scale)
        out = np.empty((len(moved), moved.shape[1] + 1), np.float32)
        out[:, :-1], out[:, -1] = moved, -np.minimum(below, LONGEST)
        return out

    def queries(self, queries: np.ndarray) -> np.ndarray:
        """Queries for products with such points, float32."""
        out = np.empty((len(queries), queries.shape[1] + 1), np.float32)
        out[:, :-1], out[:, -1] = queries - self.centre, self.scale
        return out

    def negated_distances(self, queries: np.ndarray, products: np.ndarray) -> np.ndarray:
        """Scores of rows (q, k) from <r, y> - |y|^2 / 2, float32; -inf stays -inf."""
        squares = np.square(lengths(queries - self.centre))[:, None] - 2 * products.astype("f8")
        return np.asarray(-np.sqrt(np.maximum(squares, 0)), np.float32)


METRIC = one_of(("cosine", "inner", "euclidean"))
SMALL = 1 << 14  # numbers whose squares are summed sooner than they are compared
FLOAT32 = np.dtype(np.float32)
SHORT_SQUARE, LONG_SQUARE = 1e-30, 1e30  # of vectors that every metric is defined for
LONGEST = 1e15  # products of two numbers up to here, and sums of those, stay finite in float32


class Space(NamedTuple):
    """Transformation of vectors before they are encoded.

    Fields: metric; lift, None where vectors are not lifted (unit vectors for "cosine");
    paraboloid, whose centre is subtracted first for "euclidean", and which cells are made on; else
    None.

    >>> Space("cosine").targets(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]], dtype=float32)
    """

    metric: str
    lift: Lift | None = None
    paraboloid: Paraboloid | None = None

    @classmethod
    def of(cls, metric: str, vectors: np.ndarray, *, lifted: bool) -> Self:
        """Fit the transformation to vectors; `lifted` where codes represent directions only."""
        paraboloid = Paraboloid.of(vectors) if metric == "euclidean" else None
        space = cls(metric, None, paraboloid)
        return space._replace(lift=Lift.of(space.moved(vectors))) if lifted else space

    @property
    def columns(self) -> int:
        """Number of columns that are added to vectors before they are encoded."""
        return int(self.lift is not None)

    def points(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors to encode, float32, with `columns` more."""
        moved = self.moved(vectors)
        return self.targets(moved) if self.lift is None else self.lift.points(moved)

    def moved(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors from the centre of Euclidean space; for other metrics the vectors."""
        return vectors if self.paraboloid is None else vectors - self.paraboloid.centre

    def cell_points(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors to make cells of, float32: those to encode, or on the paraboloid."""
        return self.points(vectors) if self.paraboloid is None else self.paraboloid.points(vectors)

    def cell_queries(self, targets: np.ndarray) -> np.ndarray:
        """Queries whose products with the centres of cells order them."""
        if self.paraboloid is not None:
            return self.paraboloid.queries(targets)
        return targets if self.lift is None else self.lift.lifted_queries(targets)

    def queries_of(self, points: np.ndarray) -> np.ndarray:
        """Queries equal to the vectors of these points of cells."""
        if self.paraboloid is not None:
            out = points.copy()
            out[:, -1] = self.paraboloid.scale
            return out
        return points if self.lift is None else self.lift.lifted_queries(points[:, :-1])

    def targets(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors whose inner products with those of queries are the true scores, float32."""
        if self.metric != "cosine":
            return vectors.astype(np.float32)
        if vectors.dtype == np.float32:
            return sides.units(np.ascontiguousarray(vectors))[0]
        exact = vectors.astype(np.float64)  # whose squares may vanish or overflow
        exact /= np.abs(exact).max(axis=1, keepdims=True)
        exact /= lengths(exact)[:, None]
        return exact.astype(np.float32)


def is_vector(values: Any) -> bool:
    """True for one vector, False for a matrix of them.

    >>> is_vector([1, 2]), is_vector([[1, 2]])
    (True, False)
    """
    if isinstance(values, list | tuple):
        return len(values) > 0 and isinstance(values[0], Real)
    flat = getattr(values, "ndim", 0) == 1 and len(values) > 0
    return flat and getattr(getattr(values, "dtype", None), "kind", "") != "O"


def matrix(owner: str, values: Any, dimension: int | None) -> np.ndarray:
    """Validate vectors as rows of float32 (not copied) or float64, all finite."""
    plain = isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    if not plain or values.dtype != np.float32 or values.ndim != 2:
        found = rows(owner, values, dimension)
    elif dimension is not None and values.shape[1] != dimension:
        raise ValueError(
            f"{owner}: rows must have {dimension} columns (its dimension), not {values.shape[1]}."
        )
    else:
        found = np.ascontiguousarray(values)
        if found.size and not _all_finite(found):
            row, column = np.argwhere(~np.isfinite(found))[0]
            raise ValueError(f"{owner}: numbers must be finite; row {row}, column {column} is not.")
    if len(found) and not found.shape[1]:
        raise ValueError(f"{owner}: rows must have at least one column.")
    return found


def checked_matrix(owner: str, metric: str, values: Any, dimension: int | None) -> np.ndarray:
    """Validate vectors as `matrix` and `check_vectors` do, one usual vector by its length alone."""
    if _is_usual(values, dimension):
        return np.asarray(values)
    found = matrix(owner, values, dimension)
    check_vectors(owner, metric, found)
    return found


def _is_usual(values: Any, dimension: int | None) -> bool:
    """Whether this is one float32 vector that every metric is defined for."""
    if type(values) is not np.ndarray or values.dtype is not FLOAT32:
        return False
    if values.shape != (1, dimension) or not values.flags.c_contiguous:
        return False
    return bool(SHORT_SQUARE < np.vdot(values, values) < LONG_SQUARE)


def _all_finite(found: np.ndarray) -> bool:
    """Whether all numbers are finite; few of them are proved so by a finite sum of squares."""
    if found.size <= SMALL and math.isfinite(np.vdot(found, found)):
        return True
    return bool(np.isfinite([found.min(), found.max()]).all())


def check_vectors(owner: str, metric: str, vectors: np.ndarray) -> None:
    """Raise ValueError for a row that the metric is not defined for."""
    if metric == "cosine":
        if len(vectors) == 1 and np.count_nonzero(vectors):
            return
        some = vectors.any(axis=1)
        if not some.all():
            zero = ~some
            raise ValueError(
                f"{owner}: a vector of zeros has no direction; row {int(zero.argmax())} is one: "
                "leave it out, or use metric='inner'."
            )
    elif vectors.size and not -LONGEST <= vectors.min() <= vectors.max() <= LONGEST:
        row = int((np.abs(vectors).max(axis=1) > LONGEST).argmax())
        raise ValueError(
            f"{owner}: numbers must be at most {LONGEST:g} in size; row {row} "
            "has a larger one: divide all vectors by one number."
        )

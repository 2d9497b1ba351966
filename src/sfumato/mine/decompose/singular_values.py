"""svd: the leading singular values and vectors of a matrix, and what follows from them."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import (
    RandomState,
    between,
    check_random_state,
    integer,
    one_of,
    positive,
)
from sfumato.errors import ParameterError
from sfumato.mine.decompose.krylov import leading_by_energy, leading_vectors
from sfumato.mine.decompose.matrices import Matrix, fixed_signs, query_rows
from sfumato.mine.decompose.power import MAX_ITERATIONS, principal

__all__ = ["SVD", "svd"]

OWNER = "svd"
METHODS = ("randomized", "power", "gram")
TYPES = ("float64", "float32")
SIZE = integer(1, 2**40)
ENERGY = between(0, np.nextafter(1.0, 2.0), above=True)
SIDE = 4096  # columns up to which all eigenvalues of A'A are found for an energy
WELL = 1e-6  # condition of a squared block, up to which its eigenvectors are exact enough


class SVD(Stored):
    """A truncated singular value decomposition U S V', as `svd` returns it.

    Parameters
    ----------
    u : array_like of shape (rows, rank)
        Left singular vectors, one per column: rows of the matrix to concepts.
    s : array_like of shape (rank,)
        Singular values, descending: the strength of each concept.
    vt : array_like of shape (rank, columns)
        Right singular vectors, one per row: concepts to columns of the matrix.
    norm : float or None, default=None
        Frobenius norm of the matrix; None if nothing was truncated.

    Attributes
    ----------
    rank, rows, columns : int
        Sizes of the factors.
    dtype : {"float64", "float32"}
        Type of their numbers.

    Notes
    -----
    **Guarantee.** Columns of `u` and rows of `vt` are orthonormal, `s` descends from the largest
    and is not negative. Files hold the three factors and the norm.

    Examples
    --------
    >>> parts = svd([[1, 1, 0], [3, 3, 0], [0, 0, 2]], 2)
    >>> parts.s.round(4), np.abs(parts.vt).round(4)
    (array([4.4721, 2.    ]), array([[0.7071, 0.7071, 0.    ],
           [0.    , 0.    , 1.    ]]))
    """

    rows: Annotated[int, SIZE]
    columns: Annotated[int, SIZE]
    rank: Annotated[int, SIZE]
    dtype: Annotated[str, one_of(TYPES)]
    norm: float
    u: np.ndarray
    s: np.ndarray
    vt: np.ndarray
    _scalars = {"norm": 0.0}

    def __init__(self, u: Any, s: Any, vt: Any, norm: float | None = None) -> None:
        kind = np.float32 if getattr(u, "dtype", None) == np.float32 else np.float64
        left, middle, right = (np.ascontiguousarray(each, kind) for each in (u, s, vt))
        if (left.ndim, middle.ndim, right.ndim) != (2, 1, 2) or not (
            left.shape[1] == middle.size == len(right)
        ):
            raise ValueError(
                "SVD: u, s and vt must be of shapes (rows, rank), (rank,) and (rank, columns), not "
                f"{left.shape}, {middle.shape} and {right.shape}."
            )
        sizes = dict(rows=len(left), columns=right.shape[1], rank=middle.size)
        self._set_parameters(**sizes, dtype=np.dtype(kind).name)
        self.u, self.s, self.vt = left, middle, right
        self.norm = float(np.linalg.norm(middle)) if norm is None else float(norm)
        self._check_state()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the matrix."""
        return self.rows, self.columns

    @property
    def energies(self) -> np.ndarray:
        """Fraction of the squares of the matrix in the first 1, 2, ... concepts; 1 for zeros."""
        if not self.norm:
            return np.ones(self.rank)
        return np.asarray(np.minimum(np.cumsum((self.s.astype(np.float64) / self.norm) ** 2), 1.0))

    @property
    def energy(self) -> float:
        """Fraction of the squares of the matrix that all concepts together have."""
        return float(self.energies[-1])

    @property
    def entries(self) -> int:
        """Numbers in the three factors, the space of the decomposition."""
        return self.u.size + self.s.size + self.vt.size

    def truncated(self, rank: int) -> "SVD":
        """Return the first concepts only.

        Parameters
        ----------
        rank : int
            Number of concepts, 1 to the rank.

        Returns
        -------
        SVD
            The best approximation of that rank.
        """
        n = integer(1, self.rank).check("SVD", "rank", rank)
        return SVD(self.u[:, :n], self.s[:n], self.vt[:n], self.norm)

    def concepts(self, queries: Any) -> np.ndarray:
        """Map rows into concept space: q V.

        Parameters
        ----------
        queries : array_like or sparse matrix of shape (n, columns)
            New rows, or one row alone.

        Returns
        -------
        ndarray of shape (n, rank)
            Their coordinates; of shape (rank,) for one row. Rows without a common column may be
            similar here.
        """
        checked = query_rows("SVD", queries, self.columns)
        found = np.asarray(checked @ self.vt.T)
        return found[0] if np.ndim(queries) == 1 else found

    def reconstruct(self, rows: Any = None) -> np.ndarray:
        """Return rows of U S V', the approximation of the matrix.

        Parameters
        ----------
        rows : array_like of int or None, default=None
            Positions of rows; None for all, which takes the memory of the dense matrix.

        Returns
        -------
        ndarray of shape (n, columns)
            The rows.
        """
        left = self.u if rows is None else self.u[np.asarray(rows, np.intp)]
        return np.asarray((left * self.s) @ self.vt)

    def error(self, matrix: Any = None) -> float:
        """Return the Frobenius norm of matrix - U S V', without forming the product.

        Parameters
        ----------
        matrix : array_like, sparse matrix or None, default=None
            A matrix of this shape; None for the one that was decomposed, of which the norm is
            enough.

        Returns
        -------
        float
            The error, right to about 1e-8 of the norm of the matrix.
        """
        if matrix is None:
            return self.norm * float(np.sqrt(1 - self.energy))
        given = Matrix.of("SVD", matrix)
        if given.shape != self.shape:
            raise ValueError(f"SVD: matrix must be of shape {self.shape}, not {given.shape}.")
        weights = self.s.astype(np.float64) / given.scale
        images = given.multiply(np.ascontiguousarray(self.vt.T))
        common = np.einsum("ij,ij,j->", images, self.u, weights, dtype=np.float64)
        squared = given.squares - 2 * common + weights @ weights
        return float(np.sqrt(max(squared, 0.0))) * given.scale

    def _layout(self) -> dict[str, Cells]:
        sizes = {"u": (self.rows, self.rank), "s": (self.rank,), "vt": (self.rank, self.columns)}
        return {name: Cells(np.dtype(self.dtype), shape, "") for name, shape in sizes.items()}

    def _check_parameters(self) -> None:
        if self.rank > min(self.shape):
            raise ValueError(f"SVD: rank must be at most {min(self.shape)}, not {self.rank}.")

    def _check_state(self) -> None:
        if not all(np.isfinite(each).all() for each in (self.u, self.s, self.vt)):
            raise ValueError("SVD: the factors must be finite.")
        descending = (np.diff(self.s) <= 0).all() and self.s[-1] >= 0
        if not descending or not np.isfinite(self.norm) or self.norm < 0:
            raise ValueError("SVD: singular values must descend, and no norm is negative.")


def svd(
    matrix: Any,
    rank: int | None = None,
    *,
    energy: float | None = None,
    method: str = "randomized",
    tolerance: float | None = None,
    max_iterations: int = 1000,
    random_state: RandomState = 0,
    progress: Callable[[int, int | None], Any] | None = None,
) -> SVD:
    """Decompose a matrix into its leading singular values and vectors.

    Parameters
    ----------
    matrix : array_like or sparse matrix of shape (rows, columns)
        Finite numbers. A sparse matrix is never made dense, and float32 is computed in float32.
    rank : int or None, default=None
        Number of singular values, 1 to the smaller side. Give it or `energy`.
    energy : float or None, default=None
        Fraction of the sum of squares, above 0 and at most 1, that the approximation must have:
        the smallest rank that has it is chosen. 0.8 to 0.9 is common.
    method : {"randomized", "power", "gram"}, default="randomized"
        "randomized": random blocks in the Krylov space of A'A. "power": power iteration on A'A with
        deflation, one vector after the other, which needs a `rank`. "gram": all eigenvectors of
        A'A, the smaller side squared in memory.
    tolerance : float or None, default=None
        Above 0. Of "randomized", the growth of the energy, relative to it, at which blocks end
        (None: 1e-4). Of "power", the change of a vector at which it is stable (None: 1e-6).
    max_iterations : int, default=1000
        Of "power", the largest number of products per vector.
    random_state : int, Generator or None, default=0
        Source of the first vectors.
    progress : callable or None, default=None
        Called with the number of vectors of the basis and None, or with the number of vectors that
        are found and the rank, as the work goes on.

    Returns
    -------
    SVD
        Singular values, descending, with their vectors; the largest number of each right vector is
        positive.

    Raises
    ------
    ParameterError
        The rank is above the smaller side, or neither or both of rank and energy are given.
    ValueError
        The matrix is empty, or a number is not finite.

    Notes
    -----
    **Guarantee.** ``u`` and ``vt`` have orthonormal columns and rows, and U S V' is the projection
    of the matrix on the space of ``vt``: so its squared error is the sum of squares of the matrix
    minus that of ``s``, up to rounding, whatever the method. No approximation of this rank has a
    smaller error than the exact decomposition [2]_, whose energy "gram" has up to rounding. The
    energy of "randomized" [1]_ is never higher and, at the default tolerance, was lower by less
    than 1e-4 of it on the rating sets of ``benchmarks/decompose.py``.

    The zero matrix has singular values 0 and energy 1; constant or repeated columns are ordinary
    ones. With a rank above that of the matrix, the last singular values are 0.

    References
    ----------
    .. [1] Musco, Musco. "Randomized block Krylov methods for stronger and faster approximate
       singular value decomposition". NeurIPS 2015, Theorem 1. https://arxiv.org/abs/1504.05477
    .. [2] Eckart, Young. "The approximation of one matrix by another of lower rank".
       Psychometrika 1, 1936. https://doi.org/10.1007/BF02288367

    Examples
    --------
    >>> ratings = [[5, 5, 0, 0], [4, 5, 0, 0], [0, 0, 4, 5], [1, 0, 5, 5]]
    >>> parts = svd(ratings, energy=0.9)
    >>> parts.rank, round(parts.energy, 3)
    (2, 0.996)
    >>> query = parts.concepts([5, 0, 0, 0])  # who likes the first film
    >>> bool(query @ parts.concepts([0, 5, 0, 0]) > query @ parts.concepts([0, 0, 5, 0]))
    True
    """
    given = Matrix.of(OWNER, matrix)
    method = one_of(METHODS).check(OWNER, "method", method)
    if (rank is None) == (energy is None):
        raise ParameterError.of(OWNER, "rank", "or energy must be given, and not both.")
    side = min(given.shape)
    rank = None if rank is None else integer(1, side).check(OWNER, "rank", rank)
    energy = None if energy is None else ENERGY.check(OWNER, "energy", energy)
    if tolerance is None:
        tolerance = 1e-6 if method == "power" else 1e-4
    tolerance = positive.check(OWNER, "tolerance", tolerance)
    most = MAX_ITERATIONS.check(OWNER, "max_iterations", max_iterations)
    draws = check_random_state(OWNER, random_state)
    tall = given.tall()
    if method == "power":
        if rank is None:
            raise ParameterError.of(OWNER, "rank", "must be given for method 'power'.")
        vectors = _by_power(tall, rank, tolerance, most, draws, progress)
    elif method == "gram" or (rank is None and side <= SIDE):
        vectors = _by_gram(tall, rank, energy)
    elif rank is not None:
        vectors = leading_vectors(tall, rank, tolerance, draws, progress)
    else:
        assert energy is not None
        vectors = leading_by_energy(tall, energy, tolerance, draws, progress)
    left, values, right = _factors(tall, vectors)
    if tall is not given:
        left, right = right, left
    signs = fixed_signs(right.T).astype(left.dtype)
    return SVD(left * signs, values * given.scale, (right * signs).T, given.norm)


def _by_power(
    tall: Matrix,
    rank: int,
    tolerance: float,
    most: int,
    draws: np.random.Generator,
    progress: Callable[[int, int | None], Any] | None,
) -> np.ndarray:
    """Right singular vectors by power iteration on A'A."""
    values, turned = tall.values, tall.values.T
    # Vectors that mix since their values are nearly equal span the same space all the same.
    _, vectors, _ = principal(
        lambda vector: turned @ (values @ vector),
        tall.shape[1],
        rank,
        tolerance,
        most,
        draws,
        progress,
    )
    return np.asarray(vectors.astype(tall.dtype))


def _by_gram(tall: Matrix, rank: int | None, energy: float | None) -> np.ndarray:
    """Right singular vectors from all eigenvectors of A'A."""
    values, vectors = np.linalg.eigh(tall.gram_matrix())
    if rank is None:
        sums = np.cumsum(np.maximum(values[::-1], 0))
        # Of all the squares the last ones may be missing by rounding.
        wanted = min(float(energy or 1.0) * sums[-1], sums[-1])
        rank = min(int(np.searchsorted(sums, wanted)) + 1, sums.size)
    return np.asarray(vectors[:, ::-1][:, :rank].astype(tall.dtype))


def _factors(tall: Matrix, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, s and V of the projection of A on the space of orthonormal columns."""
    images = tall.multiply(vectors)
    squared, turn = np.linalg.eigh((images.T @ images).astype(np.float64))
    if squared[0] > WELL * squared[-1] and images.dtype == np.float64:
        values, turn = np.sqrt(squared[::-1]), turn[:, ::-1]
        left = images @ (turn / values)
    else:  # squaring would lose the small ones
        left, triangle = np.linalg.qr(images)
        inner, values, outer = np.linalg.svd(triangle)
        left, turn = left @ inner, outer.T
    return left, values, np.asarray(vectors @ turn.astype(vectors.dtype))

"""cur: a matrix from a few of its own columns and rows, which stay sparse and readable."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy

from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import (
    RandomState,
    check_random_state,
    flag,
    integer,
    one_of,
    optional,
)
from sfumato.mine.decompose.matrices import Matrix
from sfumato.mine.decompose.singular_values import SIZE, svd

__all__ = ["CUR", "cur"]

OWNER = "cur"
SAMPLINGS = ("length-squared", "leverage")
SELECTIONS = ("replacement", "distinct", "largest")
MIDDLES = ("projection", "pseudo-inverse")
BLOCK = 64  # columns that are dense at a time
SINGULAR = 1e-10  # eigenvalues of C'C below this part of the largest are rounding errors
INDEX, NUMBER = Cells(np.int64, (-1,), ""), Cells(np.float64, (-1,), "")


class CUR(Stored):
    """A decomposition C U R by columns and rows of the matrix itself; made by `cur`.

    Attributes
    ----------
    rows, columns : int
        Sizes of the matrix.
    u : ndarray of shape (n_columns, n_rows)
        The small dense matrix between C and R.
    column_positions, row_positions : ndarray of int64
        Which columns and rows of the matrix were taken.
    column_counts, row_counts : ndarray of int64
        How often each was drawn.
    norm : float
        Frobenius norm of the matrix.
    residual : float
        Frobenius norm of matrix - C U R.

    Notes
    -----
    **Guarantee.** Every column of `c` is a multiple of a column of the matrix, and every row of `r`
    of a row, with the same zeros.

    Examples
    --------
    >>> parts = cur([[5, 5, 0], [4, 4, 0], [0, 0, 3]], columns=2, rows=2, selection="distinct")
    >>> parts.c.shape, parts.u.shape, parts.r.shape
    ((3, 2), (2, 2), (2, 3))
    """

    rows: Annotated[int, SIZE]
    columns: Annotated[int, SIZE]
    norm: float
    residual: float
    u: np.ndarray
    column_positions: np.ndarray
    row_positions: np.ndarray
    column_counts: np.ndarray
    row_counts: np.ndarray
    _c_offsets: np.ndarray
    _c_places: np.ndarray
    _c_values: np.ndarray
    _r_offsets: np.ndarray
    _r_places: np.ndarray
    _r_values: np.ndarray
    _scalars = {"norm": 0.0, "residual": 0.0}

    def __init__(self) -> None:
        raise TypeError("CUR: is made by cur(matrix, columns=, rows=).")

    @classmethod
    def _made(cls, shape: tuple[int, int], **state: Any) -> "CUR":
        made = cls.__new__(cls)
        made._set_parameters(rows=shape[0], columns=shape[1])
        for side, name in (("c", "column"), ("r", "row")):
            part, chosen = state.pop(side), state.pop(name)
            state[f"_{side}_offsets"] = part.indptr.astype(np.int64)
            state[f"_{side}_places"] = part.indices.astype(np.int64)
            state[f"_{side}_values"] = part.data.astype(np.float64)
            state[f"{name}_positions"] = chosen.positions.astype(np.int64)
            state[f"{name}_counts"] = chosen.counts.astype(np.int64)
        vars(made).update(state)
        made._check_state()
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the matrix."""
        return self.rows, self.columns

    @property
    def c(self) -> Any:
        """The scaled columns: a sparse array of shape (rows, n_columns)."""
        parts = self._c_values, self._c_places, self._c_offsets
        return scipy.sparse.csc_array(parts, shape=(self.rows, self.column_positions.size))

    @property
    def r(self) -> Any:
        """The scaled rows: a sparse array of shape (n_rows, columns)."""
        parts = self._r_values, self._r_places, self._r_offsets
        return scipy.sparse.csr_array(parts, shape=(self.row_positions.size, self.columns))

    @property
    def entries(self) -> int:
        """Numbers that are stored in the three factors, the space of the decomposition."""
        return self._c_values.size + self.u.size + self._r_values.size

    def reconstruct(self, rows: Any = None) -> np.ndarray:
        """Return rows of C U R, the approximation of the matrix.

        Parameters
        ----------
        rows : array_like of int or None, default=None
            Positions of rows; None for all, which takes the memory of the dense matrix.

        Returns
        -------
        ndarray of shape (n, columns)
            The rows.
        """
        left = self.c if rows is None else self.c.tocsr()[np.asarray(rows, np.intp)]
        return np.asarray((left @ self.u) @ self.r)

    def error(self, matrix: Any = None) -> float:
        """Return the Frobenius norm of matrix - C U R, without forming the product.

        Parameters
        ----------
        matrix : array_like, sparse matrix or None, default=None
            A matrix of this shape; None for the one that was decomposed.

        Returns
        -------
        float
            The error, right to about 1e-8 of the norm of the matrix.
        """
        if matrix is None:
            return self.residual
        given = Matrix.of("CUR", matrix)
        if given.shape != self.shape:
            raise ValueError(f"CUR: matrix must be of shape {self.shape}, not {given.shape}.")
        sides = _Products.of(given, self.c / given.scale, self.r / given.scale)
        return sides.error(self.u * given.scale, given.squares) * given.scale

    def _layout(self) -> dict[str, Cells]:
        indices = ("column_positions", "row_positions", "column_counts", "row_counts")
        sides = ("_c_offsets", "_c_places", "_r_offsets", "_r_places")
        return {
            **dict.fromkeys((*indices, *sides), INDEX),
            **dict.fromkeys(("_c_values", "_r_values"), NUMBER),
            "u": Cells(np.float64, (-1, -1), ""),
        }

    def _check_state(self) -> None:
        for side, name, size, other in (
            ("c", "column", self.columns, self.rows),
            ("r", "row", self.rows, self.columns),
        ):
            positions = getattr(self, f"{name}_positions")
            offsets, places, values = (
                getattr(self, f"_{side}_{each}") for each in ("offsets", "places", "values")
            )
            _check_positions(positions, getattr(self, f"{name}_counts"), size)
            _check_compressed(offsets, places, values, positions.size, other)
        wanted = self.column_positions.size, self.row_positions.size
        numbers = [self.u.sum(), self.norm, self.residual]
        if self.u.shape != wanted or not np.isfinite(numbers).all() or min(numbers[1:]) < 0:
            raise ValueError("CUR: the middle matrix does not fit.")


def _check_positions(positions: np.ndarray, counts: np.ndarray, size: int) -> None:
    inside = positions.size and positions.min() >= 0 and positions.max() < size
    if not inside or counts.size != positions.size or counts.min() < 1:
        raise ValueError("CUR: the positions do not fit the matrix.")


def _check_compressed(
    offsets: np.ndarray, places: np.ndarray, values: np.ndarray, count: int, size: int
) -> None:
    ends = offsets.size == count + 1 and offsets[0] == 0 and offsets[-1] == places.size
    if not ends or (np.diff(offsets) < 0).any() or values.size != places.size:
        raise ValueError("CUR: a sparse factor is not in order.")
    if places.min(initial=0) < 0 or places.max(initial=0) >= size or not np.isfinite(values).all():
        raise ValueError("CUR: a sparse factor has a position or number out of range.")


def cur(
    matrix: Any,
    columns: int,
    rows: int,
    *,
    sampling: str = "length-squared",
    selection: str = "replacement",
    join: bool = True,
    u: str = "projection",
    leverage_rank: int | None = None,
    random_state: RandomState = 0,
) -> CUR:
    """Decompose a matrix into some of its columns, some of its rows, and a small matrix between.

    Parameters
    ----------
    matrix : array_like or sparse matrix of shape (rows, columns)
        Finite numbers; a sparse matrix is never made dense, and C and R stay sparse.
    columns : int
        Number of columns to draw, at least 1.
    rows : int
        Number of rows to draw, at least 1.
    sampling : {"length-squared", "leverage"}, default="length-squared"
        Probability of a column or row: its sum of squares, or its share in the leading singular
        vectors.
    selection : {"replacement", "distinct", "largest"}, default="replacement"
        "replacement": independent draws, of which some repeat. "distinct": draws until there are
        as many different ones. "largest": those of largest probability, not random. The last two
        need fewer columns and rows than the matrix has.
    join : bool, default=True
        Whether a column or row that was drawn several times is stored once, times the root of how
        often: C C' and R' R are the same.
    u : {"projection", "pseudo-inverse"}, default="projection"
        "projection": ``U = C+ A R+``, the best one for these columns and rows. "pseudo-inverse":
        ``U = W+`` where W is the matrix at the drawn rows and columns, in their scales.
    leverage_rank : int or None, default=None
        Number of singular vectors for "leverage"; None for a tenth of the smaller of `columns` and
        `rows`.
    random_state : int, Generator or None, default=0
        Source of the draws.

    Returns
    -------
    CUR
        The decomposition. A drawn column j is divided by ``sqrt(columns * probability(j))``.

    Raises
    ------
    ParameterError
        A number is out of range.
    ValueError
        The matrix is empty, or a number is not finite.

    Notes
    -----
    **Guarantee.** With "projection" no other U has a smaller error ``|A - C U R|`` in the Frobenius
    norm [1]_: the zero matrix, U = 0, never wins. "pseudo-inverse" reproduces a matrix exactly if W
    has its rank, but its error on others is not bounded by that of U = 0: small singular values of
    W make large numbers. The error is computed without forming the product. Columns and rows of
    zeros are drawn only by "largest"; of the zero matrix the first ones are taken.

    References
    ----------
    .. [1] Stewart. "Four algorithms for the efficient computation of truncated pivoted QR
       approximations to a sparse matrix". Numerische Mathematik 83, 1999, section 2.
       https://doi.org/10.1007/s002110050451
    .. [2] Drineas, Kannan, Mahoney. "Fast Monte Carlo algorithms for matrices III". SIAM Journal on
       Computing 36, 2006. https://doi.org/10.1137/S0097539704442702
    .. [3] Mahoney, Drineas. "CUR matrix decompositions for improved data analysis". PNAS 106, 2009
       (leverage). https://doi.org/10.1073/pnas.0803205106

    Examples
    --------
    >>> ratings = [[5, 5, 0, 0], [4, 4, 0, 0], [0, 0, 4, 4], [0, 0, 5, 5]]
    >>> parts = cur(ratings, columns=6, rows=6)
    >>> parts.error() < 1e-6, sorted(parts.column_positions.tolist())
    (True, [0, 1, 2, 3])
    """
    given = Matrix.of(OWNER, matrix)
    sampling = one_of(SAMPLINGS).check(OWNER, "sampling", sampling)
    selection = one_of(SELECTIONS).check(OWNER, "selection", selection)
    middle = one_of(MIDDLES).check(OWNER, "u", u)
    join = flag.check(OWNER, "join", join)
    most = (2**31, 2**31) if selection == "replacement" else given.shape[::-1]
    columns = integer(1, most[0]).check(OWNER, "columns", columns)
    rows = integer(1, most[1]).check(OWNER, "rows", rows)
    rank = optional(integer(1, min(given.shape))).check(OWNER, "leverage_rank", leverage_rank)
    rank = rank or min(max(min(columns, rows) // 10, 1), *given.shape)
    draws = check_random_state(OWNER, random_state)
    given = Matrix(given.values.astype(np.float64, copy=False), given.scale)
    over_columns, over_rows = _probabilities(given, sampling, rank, draws)
    taken = _Chosen.of(over_columns, columns, selection, join, draws)
    across = _Chosen.of(over_rows, rows, selection, join, draws)
    c = scipy.sparse.csc_array(given.values[:, taken.positions]) @ scipy.sparse.diags_array(
        taken.weights
    )
    r = scipy.sparse.diags_array(across.weights) @ scipy.sparse.csr_array(
        given.values[across.positions]
    )
    c, r = scipy.sparse.csc_array(c), scipy.sparse.csr_array(r)
    sides = _Products.of(given, c, r)
    if middle == "projection":
        small = sides.projection()
    else:
        crossing = (
            scipy.sparse.csr_array(c)[across.positions].toarray() * across.weights[:, np.newaxis]
        )
        small = np.linalg.pinv(crossing, rcond=1e-12)
    residual = sides.error(small, given.squares) * given.scale
    return CUR._made(
        given.shape,
        c=c * given.scale,
        r=r * given.scale,
        u=small / given.scale,
        column=taken,
        row=across,
        norm=given.norm,
        residual=residual,
    )


@dataclass(frozen=True)
class _Chosen:
    """The positions that were drawn, how often each, and the factor of its column or row."""

    positions: np.ndarray
    counts: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls,
        probabilities: np.ndarray,
        n: int,
        selection: str,
        join: bool,
        draws: np.random.Generator,
    ) -> "_Chosen":
        possible = int(np.count_nonzero(probabilities))
        if selection == "largest":
            positions = np.sort(np.argsort(-probabilities, kind="stable")[:n])
        elif not possible:  # a matrix of zeros
            positions = np.arange(min(n, probabilities.size))
        else:
            repeat = selection == "replacement"
            size = n if repeat else min(n, possible)
            positions = draws.choice(probabilities.size, size, replace=repeat, p=probabilities)
            positions = np.sort(positions)
        counts = np.ones(positions.size, np.int64)
        if join:
            positions, counts = np.unique(positions, return_counts=True)
        # What has probability 0 is taken as it is.
        chance = np.where(probabilities[positions] > 0, probabilities[positions], 1 / n)
        return cls(positions, counts, np.sqrt(counts / (n * chance)))


def _probabilities(
    given: Matrix, sampling: str, rank: int, draws: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The probability of every column, and of every row; zeros for a matrix of zeros."""
    if not given.squares:
        return np.zeros(given.shape[1]), np.zeros(given.shape[0])
    if sampling == "leverage":
        found = svd(given.values, rank, random_state=draws)
        across, down = (found.vt**2).sum(axis=0), (found.u**2).sum(axis=1)
    else:
        squares = given.values.power(2) if given.is_sparse else given.values**2
        across, down = (np.asarray(squares.sum(axis=axis)).reshape(-1) for axis in (0, 1))
    return across / across.sum(), down / down.sum()


@dataclass(frozen=True)
class _Products:
    """Small products from which the best U and every error follow: C'C, R R' and C' A R'."""

    columns: np.ndarray
    rows: np.ndarray
    crossed: np.ndarray

    @classmethod
    def of(cls, matrix: Matrix, c: Any, r: Any) -> "_Products":
        tall, wide = Matrix(scipy.sparse.csr_array(c)), Matrix(scipy.sparse.csr_array(r.T))
        turned = Matrix(scipy.sparse.csr_array(c.T))
        crossed = np.empty((c.shape[1], r.shape[0]))
        for first in range(0, r.shape[0], BLOCK):
            part = slice(first, first + BLOCK)
            block = np.ascontiguousarray(r[part].toarray().T)
            crossed[:, part] = turned.multiply(matrix.multiply(block))
        return cls(tall.gram_matrix(), wide.gram_matrix(), crossed)

    def projection(self) -> np.ndarray:
        """U = C+ A R+ by C+ = (C'C)+ C' and R+ = R' (R R')+."""
        left, right = _symmetric_inverse(self.columns), _symmetric_inverse(self.rows)
        return np.asarray(left @ self.crossed @ right)

    def error(self, u: np.ndarray, squares: float) -> float:
        """The norm of A - C U R: squares - 2 <C'A R', U> + <U, C'C U R R'>."""
        squared = (
            squares - 2 * (u * self.crossed).sum() + (u * (self.columns @ u @ self.rows)).sum()
        )
        return float(np.sqrt(max(squared, 0.0)))


def _symmetric_inverse(matrix: np.ndarray) -> np.ndarray:
    """The pseudo-inverse of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    inside = values > max(SINGULAR * values[-1], 0.0)
    return np.asarray((vectors[:, inside] / values[inside]) @ vectors[:, inside].T)

"""Power iteration with deflation: eigenvectors of a symmetric matrix one after the other."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from sfumato.core.validation import (
    RandomState,
    check_random_state,
    integer,
    positive,
)
from sfumato.errors import ParameterError
from sfumato.mine.decompose.matrices import Matrix, fixed_signs

__all__ = ["MAX_ITERATIONS", "power_iteration", "principal"]

OWNER = "power_iteration"
MAX_ITERATIONS = integer(1, 2**31)
EPSILON = float(np.finfo(np.float64).eps)
SYMMETRIC = 1e-9  # largest difference to the transpose, relative to the largest number


def power_iteration(
    matrix: Any,
    n: int = 1,
    *,
    tolerance: float = 1e-9,
    max_iterations: int = 10_000,
    random_state: RandomState = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the eigenvalues of largest size of a symmetric matrix, and their eigenvectors.

    From a random vector, ``x = M x / |M x|`` is repeated until it changes by less than `tolerance`;
    the eigenvalue is ``x' M x``. Then M is replaced by ``M - value x x'`` and the next one is
    found. The norm is Euclid's.

    Parameters
    ----------
    matrix : array_like or sparse matrix of shape (d, d)
        Symmetric matrix M. It is not changed, nor made dense.
    n : int, default=1
        Number of eigenvalues, 1 to d.
    tolerance : float, default=1e-09
        Change of a vector at which it is stable, above 0.
    max_iterations : int, default=10000
        Largest number of products per eigenvector, at least 1.
    random_state : int, Generator or None, default=0
        Source of the first vectors.

    Returns
    -------
    values : ndarray of shape (n,)
        Eigenvalues by decreasing size.
    vectors : ndarray of shape (d, n)
        Orthonormal eigenvectors, one per column; the largest number of each is positive.

    Warns
    -----
    UserWarning
        A vector was not stable after `max_iterations`, as with two eigenvalues of nearly the same
        size, where it is a mixture of their vectors.

    Notes
    -----
    **Guarantee.** Vectors are orthonormal up to rounding, and values are their Rayleigh quotients.
    Where eigenvalues are equal, any orthonormal vectors of their space are right. Convergence is
    as (second / first eigenvalue) ** iterations, so nearly equal ones take long.

    Examples
    --------
    >>> values, vectors = power_iteration([[3.0, 2.0], [2.0, 6.0]], 2)
    >>> values.round(6), vectors.round(4)
    (array([7., 2.]), array([[ 0.4472,  0.8944],
           [ 0.8944, -0.4472]]))
    """
    tolerance = positive.check(OWNER, "tolerance", tolerance)
    most = MAX_ITERATIONS.check(OWNER, "max_iterations", max_iterations)
    checked = _symmetric(matrix)
    n = integer(1, checked.shape[0]).check(OWNER, "n", n)
    draws = check_random_state(OWNER, random_state)
    scale = checked.scale
    values, vectors, stable = principal(
        lambda vector: checked.values @ vector, checked.shape[0], n, tolerance, most, draws
    )
    if not stable:
        warnings.warn(
            f"{OWNER}: max_iterations is {most}, after which a vector still changed; eigenvalues "
            "of nearly the same size mix their vectors.",
            UserWarning,
            stacklevel=2,
        )
    return values * scale, vectors * fixed_signs(vectors.T)


def _symmetric(matrix: Any) -> Matrix:
    checked = Matrix.of(OWNER, matrix)
    rows, columns = checked.shape
    if rows != columns:
        raise ValueError(f"{OWNER}: matrix must be square, not of shape {checked.shape}.")
    difference = abs(checked.values - checked.values.T)
    size = abs(checked.values).max()
    if difference.max() > SYMMETRIC * size:
        raise ParameterError.of(OWNER, "matrix", "must be symmetric; take (M + M') / 2, or svd.")
    if scipy.sparse.issparse(checked.values) and checked.values.dtype != np.float64:
        return Matrix(checked.values.astype(np.float64), checked.scale)
    return checked


def principal(
    apply: Callable[[np.ndarray], np.ndarray],
    size: int,
    n: int,
    tolerance: float,
    most: int,
    draws: np.random.Generator,
    progress: Callable[[int, int | None], Any] | None = None,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Values, vectors (one per column) and whether all were stable, of the symmetric `apply`."""
    values, vectors, stable = np.zeros(n), np.zeros((size, n)), True
    for at in range(n):
        found = vectors[:, :at]

        def deflated(vector: np.ndarray, at: int = at, found: np.ndarray = found) -> np.ndarray:
            return np.asarray(apply(vector) - found @ (values[:at] * (found.T @ vector)))

        least = size * EPSILON * float(np.abs(values).max())  # below is rounding alone
        vector, settled = _one(deflated, found, least, tolerance, most, draws)
        vectors[:, at], values[at] = vector, vector @ apply(vector)
        stable &= settled
        if progress is not None:
            progress(at + 1, n)
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], vectors[:, order], stable


def _one(
    apply: Callable[[np.ndarray], np.ndarray],
    found: np.ndarray,
    least: float,
    tolerance: float,
    most: int,
    draws: np.random.Generator,
) -> tuple[np.ndarray, bool]:
    """The principal eigenvector of the deflated matrix, and whether it became stable."""
    vector = _apart(draws.standard_normal(len(found)), found)
    for _ in range(most):
        product = apply(vector)
        size = float(np.linalg.norm(product))
        if size <= least:  # nothing is left: any vector will do
            return vector, True
        following = _apart(product / size, found)
        # A negative eigenvalue turns the vector round in every step.
        change = min(np.linalg.norm(following - vector), np.linalg.norm(following + vector))
        vector = following
        if change <= tolerance:
            return vector, True
    return vector, False


def _apart(vector: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The vector without its part along those found, of length 1: rounding would bring it back."""
    for _ in range(2):
        vector = vector - found @ (found.T @ vector)
    return np.asarray(vector / np.linalg.norm(vector))

"""Least squares from noisy sums: what noise may have done to a matrix of moments is undone.

The sums of n rows are a matrix G = n [A b; b' c] with A and c no less than 0; noise of deviation s
in every entry makes some eigenvalues of A small, or negative, and least squares would divide by
them. Instead the density of A is taken as det(A)**k, times that of the noise, which is largest for
the same eigenvectors and eigenvalues (t + sqrt(t**2 + 8 k s**2)) / 2: those well above the noise
stay, the others become about its size. In the same way what is left of the target, v = c - b' A b
has density v**k, and b is largest in density where (A + (2 k s_b**2 / v) 1) b = told b: a ridge.
k = features / 4 makes the least eigenvalue about as large as noise alone would make it (the
eigenvalues of m x m noise have a mean square of m s**2). Nothing is tuned on data.
"""

import numpy as np

__all__ = ["least_squares"]

ROUNDS = 100  # of the equation for what is left of the target; it settles in about ten
LEAST = 1 / 50  # of the target's moment that is left, at least: nothing is told exactly
FLAT = 1e-9  # eigenvalues below this part of the largest are rounding


def least_squares(matrix: np.ndarray, size: float, noise: tuple[float, float]) -> np.ndarray:
    """The weight of each feature, from sums of products of features, target last.

    Parameters: matrix, the sums; size, how many rows, noisy too; noise, the deviation of the sums
    of inputs and of those with the target, zeros where they are exact.
    """
    count = max(size, noise[0], 1.0)
    inputs, target = matrix[:-1, :-1] / count, matrix[:-1, -1] / count
    told, vectors = np.linalg.eigh(inputs)
    along = vectors.T @ target
    if not noise[0]:
        kept = told > told[-1] * FLAT
        return np.asarray(vectors[:, kept] @ (along[kept] / told[kept]))
    share = len(told) / 4
    roots = (told + np.sqrt(told**2 + 8 * share * (noise[0] / count) ** 2)) / 2
    moment = float(np.clip(matrix[-1, -1] / count, LEAST, 1.0))
    return np.asarray(vectors @ _ridge(roots, along, moment, 2 * share * (noise[1] / count) ** 2))


def _ridge(roots: np.ndarray, along: np.ndarray, moment: float, strength: float) -> np.ndarray:
    """Weights along eigenvectors, with a penalty of strength / what they leave of the moment."""
    left = moment
    weights = np.zeros_like(roots)
    for _ in range(ROUNDS):
        weights = along / (roots + strength / left)
        rest = max(moment - float((weights**2 * roots).sum()), LEAST * moment)
        left = (left + rest) / 2
    return weights

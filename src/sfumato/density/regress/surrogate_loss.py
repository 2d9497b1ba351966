"""Regression from counts of angles, whose sign agreements estimate the squared loss of any weights.

With z = (1, x, y) and q = (w, -1), the residual of a row is q . z. Coleman et al. 2020 count codes
of b signs of z and search for weights by querying at one q after another (`searched`), where
hashing obscures most of the signal: on 3000 rows of 5 columns that explain 4/5 of the variance of
the target, zero weights have a sum only 0.7 % above that of the best ones, while 1024 hashes of 4
signs estimate that difference with an error of 3.8 %.

The same counts contain more. For directions u and v the mean of sign(u . z) sign(v . z) over rows,
which is the same for z and -z and so paired by itself, is (2 / pi) arcsin of the correlation of
u . z and v . z if rows are normal (Sheppard 1899), and close to it otherwise. The matrix M of all
mean products of z is fitted to the b (b - 1) / 2 agreements of every hash at once, by Gauss-Newton
steps shrunk towards the M of rows uniform in the box; q' M q is then the squared loss at any q. The
error is limited by how far rows are from normal, which more hashes average out only in part, and
for private counts by the noise times 4 / rows.

`least` minimises a noisy loss by its values alone, as the surrogate regression of the paper needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.sketch.kernel_sums.race import Race
from sfumato.sketch.lsh import Angular
from sfumato.sketch.lsh.angular import drawn_directions

__all__ = [
    "BITS",
    "BUDGET",
    "LONGEST",
    "MOST",
    "angle_sketch",
    "least",
    "lifted",
    "minimised",
    "searched",
    "suggested_rows",
    "surrogate_loss",
    "surrogate_rows",
]

BITS = 4  # signs per code
UNIFORM = 2**12  # uniform rows that the fit starts from
ROUNDS = 8  # Gauss-Newton steps
INNER = 30  # iterations of least squares in each
HASTY = (2, 6)  # both, for large problems
MISFIT = 0.05  # deviation of an agreement from that of normal rows: about that of uniform ones
PRIOR = 0.5  # prior deviation of a product from that of uniform rows, relative to it
SLOPE = 2 / np.pi**2  # squared information of an agreement about all correlations
STEEP = 1e-2  # smallest 1 - correlation**2 that a slope divides by
FLAT = 1e-3  # smallest eigenvalue, relative to that of uniform rows
LONGEST = 2.0  # largest norm of weights with noise: target and columns have the same scale
FEWEST, MANY, MOST = 64, 1024, 4096  # hashes
WORK = 2**24  # size of a problem that is fitted in seconds; beyond it, with few steps


def suggested_rows(columns: int, epsilon: float | None, delta: float) -> int:
    """Number of hashes by public numbers: noise grows with them at delta 0 only."""
    size = columns + 3  # with the constant, the target, and the column that makes rows of length 1
    if epsilon is None:
        return int(min(max(MANY, WORK // (6 * size**2)), MOST))
    if delta:
        return MANY
    return int(min(max(FEWEST, FEWEST * epsilon, size**2 / 8), MANY))


def angle_sketch(columns: int, rows: int, seed: int) -> Race:
    """An empty sketch for points of `columns` columns, the target among them."""
    # Rows of several signs are drawn independently: stratified ones were no better.
    family = Angular(BITS, columns + 2)
    return Race(rows, 2**BITS, family, seed=seed, strata="independent")


def lifted(scaled: np.ndarray) -> np.ndarray:
    """Rows (1, x, y) of numbers in [-1, 1], scaled down, and made of length 1 by a last coordinate.

    Half of the largest squared length becomes 1: longer rows, which are rare, weigh less.
    """
    rows = np.hstack([np.ones((len(scaled), 1)), scaled]) / np.sqrt((scaled.shape[1] + 1) / 2)
    squares = (rows**2).sum(axis=1, keepdims=True)
    rows /= np.sqrt(np.maximum(squares, 1.0))
    return np.hstack([rows, np.sqrt(np.maximum(1 - squares, 0.0))])


def minimised(summary: Any) -> np.ndarray:
    """The weights of (1, x) with the smallest squared loss, by counts of a sketch or release."""
    pairs = _Pairs.of(summary)
    products = pairs.fitted(_uniform_products(pairs.left.shape[1]))[:-1, :-1]
    lengths = np.sqrt(np.diag(products))
    square = _positive(products / np.outer(lengths, lengths), pairs.uncertainty)
    weights = np.linalg.solve(square[:-1, :-1], square[:-1, -1]) * lengths[-1] / lengths[:-1]
    if pairs.noise:  # which may make the lengths of columns nearly 0
        weights *= LONGEST / max(float(np.linalg.norm(weights)), LONGEST)
    return np.asarray(weights)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of directions, one per row, the agreement of their signs, and its noise variance."""

    left: np.ndarray
    right: np.ndarray
    agreements: np.ndarray
    noise: float  # variance of an agreement

    @classmethod
    def of(cls, summary: Any) -> "_Pairs":
        directions = drawn_directions(summary.kernel, summary._hashes.draw)
        directions = directions / np.sqrt((directions**2).sum(axis=2, keepdims=True))
        signs = 1 - 2.0 * (np.arange(2**BITS) >> np.arange(BITS)[:, None] & 1)
        both = list(combinations(range(BITS), 2))
        noise = summary.noise_error() if hasattr(summary, "noise_error") else 0.0
        count = max(summary.size(), noise, 1.0)
        table = np.asarray(summary._table, np.float64) / count
        # An estimate is the mean of one cell of each hash.
        cells = noise / count * np.sqrt(summary.rows)
        return cls(
            np.vstack([directions[i] for i, _ in both]),
            np.vstack([directions[j] for _, j in both]),
            np.concatenate([table @ (signs[i] * signs[j]) for i, j in both]),
            2**BITS * cells**2,
        )

    @property
    def variance(self) -> float:
        """Variance of an agreement around that of normal rows."""
        return MISFIT**2 + self.noise

    @property
    def uncertainty(self) -> float:
        """2 size times the variance of a correlation after the fit."""
        size = self.left.shape[1]
        information = SLOPE * len(self.left) / size**2 / self.variance
        return float(2 * size / (information + 1 / PRIOR**2))

    def fitted(self, start: np.ndarray) -> np.ndarray:
        """The mean products of rows that best explain these agreements."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        root = np.linalg.cholesky(start)
        left, right, size = self.left @ root, self.right @ root, len(root)
        start_products = products = np.eye(size)
        damp = np.sqrt(self.variance) / PRIOR
        rounds, inner = (ROUNDS, INNER) if left.size * size <= WORK else HASTY
        for _ in range(rounds):
            step = _Slopes.at(left, right, products)
            linear = LinearOperator(
                (len(left), size * size), matvec=step.forth, rmatvec=step.back, dtype=np.float64
            )
            # The penalty is for the difference from uniform rows, not from the last step.
            residuals = self.agreements - step.agreements + step.forth(products - start_products)
            found = lsqr(linear, residuals, damp=damp, atol=1e-6, btol=1e-6, iter_lim=inner)[0]
            products = _positive(start_products + found.reshape(size, size), 0.0)
        return np.asarray(root @ products @ root.T)


@dataclass(frozen=True)
class _Slopes:
    """Agreements as a function of mean products, linearised around some."""

    left: np.ndarray
    right: np.ndarray
    correlations: np.ndarray
    slopes: np.ndarray

    @classmethod
    def at(cls, left: np.ndarray, right: np.ndarray, products: np.ndarray) -> "_Slopes":
        one, other = (
            each / np.sqrt(((each @ products) * each).sum(axis=1, keepdims=True))
            for each in (left, right)
        )
        correlations = np.clip(((one @ products) * other).sum(axis=1), -1.0, 1.0)
        return cls(
            one, other, correlations, 2 / np.pi / np.sqrt(np.maximum(1 - correlations**2, STEEP))
        )

    @property
    def agreements(self) -> np.ndarray:
        return np.asarray(2 / np.pi * np.arcsin(self.correlations))

    def forth(self, change: np.ndarray) -> np.ndarray:
        """The change of every agreement by a symmetric change of the products."""
        one, other, half = self.left, self.right, self.correlations[:, None] / 2
        square = change.reshape(one.shape[1], -1)
        moved = ((one @ square) * (other - half * one)).sum(axis=1)
        return np.asarray(self.slopes * (moved - ((other @ square) * (half * other)).sum(axis=1)))

    def back(self, values: np.ndarray) -> np.ndarray:
        """The transpose of `forth`."""
        one, other, half = self.left, self.right, self.correlations[:, None] / 2
        values = (self.slopes * values.reshape(-1))[:, None]
        square = (values * one).T @ (other - half * one) - (values * other).T @ (half * other)
        return np.asarray((square + square.T) / 2).reshape(-1)


def _positive(square: np.ndarray, uncertainty: float) -> np.ndarray:
    """The most likely matrix without negative eigenvalues, as in `least_squares`."""
    values, vectors = np.linalg.eigh(square)
    values = (values + np.sqrt(values**2 + uncertainty)) / 2
    return np.asarray((vectors * np.maximum(values, FLAT)) @ vectors.T)


def _uniform_products(size: int) -> np.ndarray:
    """Mean products of rows uniform in the box: public, and the same every time."""
    rows = lifted(np.random.default_rng(0).uniform(-1, 1, (UNIFORM, size - 2)))
    return np.asarray(rows.T @ rows / UNIFORM + FLAT / size * np.eye(size))


BATCH, SEARCH_ROUNDS = 100, 20  # points per round, rounds
BUDGET = BATCH * SEARCH_ROUNDS
ELITE = BATCH // 5  # best points so far, around which the next are drawn
SHRINK = 0.93  # factor of the step, from round to round
FITTED = BUDGET // 4  # largest number of coefficients of a quadratic that values determine


def least(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, curved: float, seed: int
) -> np.ndarray:
    """Minimise a noisy loss over weights of a norm up to `longest`.

    `loss` takes points, one per row, and is evaluated 20 times at 100 of them: 0 and random ones,
    then points near the best so far, with shrinking steps. The result is the minimum of the
    quadratic closest to all values, with a curvature of at least `curved` (above 0) everywhere: the
    errors of single values, of which the smallest value itself is the most biased, average out in
    it. Beyond 30 weights, where 2000 values do not determine a quadratic, it is the mean of the 20
    best points. Equal arguments give equal weights.

    >>> target = np.array([0.5, -0.25])
    >>> found = least(lambda points: ((points - target) ** 2).sum(axis=1), 2, 2.0, 0.1, seed=0)
    >>> found.round(6).tolist()
    [0.5, -0.25]
    """
    points, values = _evaluated(loss, size, longest, np.random.default_rng(seed))
    if (size + 1) * (size + 2) // 2 <= FITTED:
        found = _bottom(points, values, curved)
    else:
        found = points[np.argsort(values, kind="stable")[:ELITE]].mean(axis=0)
    return np.asarray(_inside(found[None], longest)[0])


def _evaluated(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All points that were tried, and their values."""
    points = rng.normal(0.0, 1.0, (BATCH, size))
    lengths = longest * rng.uniform(0, 1, (BATCH, 1)) ** (1 / size)  # uniform in the ball
    points *= lengths / np.linalg.norm(points, axis=1, keepdims=True)
    points[0] = 0.0
    values, step = loss(points), longest / 2
    for _ in range(SEARCH_ROUNDS - 1):
        best = points[np.argsort(values, kind="stable")[:ELITE]]
        near = best[rng.integers(ELITE, size=BATCH)]
        near = _inside(near + rng.normal(0.0, step / np.sqrt(size), near.shape), longest)
        points, values = np.vstack([points, near]), np.append(values, loss(near))
        step *= SHRINK
    return points, values


def _bottom(points: np.ndarray, values: np.ndarray, curved: float) -> np.ndarray:
    """The minimum of the quadratic closest to the values, with the curvature floored."""
    size = points.shape[1]
    one, other = np.triu_indices(size)
    columns = [np.ones((len(points), 1)), points, points[:, one] * points[:, other]]
    coefficients = np.linalg.lstsq(np.hstack(columns), values, rcond=None)[0]
    slope, square = coefficients[1 : size + 1], np.zeros((size, size))
    square[one, other] = coefficients[size + 1 :]
    curvatures, vectors = np.linalg.eigh(square + square.T)
    return np.asarray(-vectors @ ((vectors.T @ slope) / np.maximum(curvatures, curved)))


def _inside(points: np.ndarray, longest: float) -> np.ndarray:
    """Points projected onto the ball of this radius."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points * (longest / np.maximum(lengths, longest)))


PULL = 0.5  # penalty of weights of length 1, in standard deviations of a loss
MORE = 4  # times the hashes of angles, since hashing errors exceed the noise


def surrogate_rows(columns: int, epsilon: float | None, delta: float) -> int:
    """Number of hashes of the surrogate by public numbers."""
    return min(MORE * suggested_rows(columns, epsilon, delta), MOST)


def surrogate_loss(summary: Any, weights: np.ndarray) -> np.ndarray:
    """Mean surrogate loss of weights of (1, x), one vector per row, by a sketch or release."""
    ones = np.ones((len(weights), 1))
    # The last coordinate, 0, is the one that makes rows of length 1.
    queries = np.hstack([weights, -ones, 0 * ones])
    both = summary.estimate(np.vstack([queries, -queries])).reshape(2, -1).sum(axis=0)
    return np.asarray(both / _count(summary))


def searched(summary: Any) -> np.ndarray:
    """Weights of (1, x), of norm at most 2, with a small penalised surrogate loss."""
    penalty = PULL * _error(summary)
    return least(
        lambda weights: surrogate_loss(summary, weights) + penalty * (weights**2).sum(axis=1),
        summary.kernel.dimension - 2,
        LONGEST,
        2 * penalty,  # the curvature of the penalty alone
        summary.seed,
    )


def _noise(summary: Any) -> float:
    """Standard deviation of the noise of an estimate, 0 for a sketch."""
    return float(summary.noise_error()) if hasattr(summary, "noise_error") else 0.0


def _count(summary: Any) -> float:
    """Estimated number of rows, at least its noise and one."""
    return max(float(summary.size()), _noise(summary), 1.0)


def _error(summary: Any) -> float:
    """Standard deviation of a loss: by noise, and by hashing for equal and orthogonal rows."""
    hashing = 2 * 2.0**-BITS / summary.rows
    return float(np.sqrt(hashing + 2 * (_noise(summary) / _count(summary)) ** 2))

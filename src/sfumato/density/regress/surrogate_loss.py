"""Regression by counts of angles, whose agreements tell the squared loss of any weights.

With z = (1, x, y) and q = (w, -1), the residual of a row is q . z. The paper counts codes of b
signs of z and looks for weights by asking at q after q (`searched`), where
hashing hides most of what there is: on 3000 rows of 5 columns that tell 4/5 of a target, no weights
at all have a sum 0.7 % above that of the best ones, and 1024 hashes of 4 signs leave that
difference open by 3.8 %.

The same counts tell more. For directions u and v the mean of sign(u . z) sign(v . z) over rows, the
same for z and -z and so paired by itself, is (2 / pi) arcsin of the correlation of u . z and v . z
where rows are normal (Sheppard 1899), and near to it where they are not. The matrix M of all mean
products of z is fitted to the b (b - 1) / 2 agreements of every hash at once, by Gauss-Newton steps
drawn towards the M of rows spread evenly in the box; q' M q is then the squared loss at any q. What
limits it is how far rows are from normal, which more hashes average out in part only, and, where a
private count has noise, that noise times 4 / rows.

A search for the least value of a noisy loss, which asks for nothing but values of it. The paper's
regression: weights by asking a sketch of angles for their surrogate loss.
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

BITS = 4  # signs of a code
EVEN = 2**12  # rows spread evenly that the fit starts from
ROUNDS = 8  # of Gauss-Newton
INNER = 30  # steps of least squares in each
HASTY = (2, 6)  # both, where there is much to fit
MISFIT = 0.05  # deviation of an agreement from that of normal rows: about that of even ones
PRIOR = 0.5  # deviation of a product from that of even rows, both as shares
SLOPE = 2 / np.pi**2  # what an agreement tells of all correlations together, squared
STEEP = 1e-2  # the least 1 - correlation**2 that a slope divides by
FLAT = 1e-3  # the least eigenvalue, as a share of that of even rows
LONGEST = 2.0  # weights, where there is noise: target and columns are scaled alike
FEWEST, MANY, MOST = 64, 1024, 4096  # hashes
WORK = 2**24  # numbers of all pairs that are fitted in seconds; beyond it, with few steps


def suggested_rows(columns: int, epsilon: float | None, delta: float) -> int:
    """How many hashes, by public numbers: noise grows with them at delta 0, and not with one."""
    size = columns + 3  # with 1, the target, and what makes a row one of length 1
    if epsilon is None:
        return int(min(max(MANY, WORK // (6 * size**2)), MOST))
    if delta:
        return MANY
    return int(min(max(FEWEST, FEWEST * epsilon, size**2 / 8), MANY))


def angle_sketch(columns: int, rows: int, seed: int) -> Race:
    """An empty sketch for points of so many columns, the target among them."""
    # Rows of a code of several signs are independent: stratified ones were no better.
    family = Angular(BITS, columns + 2)
    return Race(rows, 2**BITS, family, seed=seed, strata="independent")


def lifted(scaled: np.ndarray) -> np.ndarray:
    """Rows (1, x, y) of numbers from -1 to 1, shortened, and made of length 1 by a last number.

    Half of the largest square of a length becomes 1: longer rows, which are rare, weigh less.
    """
    rows = np.hstack([np.ones((len(scaled), 1)), scaled]) / np.sqrt((scaled.shape[1] + 1) / 2)
    squares = (rows**2).sum(axis=1, keepdims=True)
    rows /= np.sqrt(np.maximum(squares, 1.0))
    return np.hstack([rows, np.sqrt(np.maximum(1 - squares, 0.0))])


def minimised(told: Any) -> np.ndarray:
    """The weights of (1, x) whose squared loss is least, by the counts of a sketch or a release."""
    pairs = _Pairs.of(told)
    products = pairs.fitted(_even(pairs.left.shape[1]))[:-1, :-1]
    lengths = np.sqrt(np.diag(products))
    square = _positive(products / np.outer(lengths, lengths), pairs.unsure)
    weights = np.linalg.solve(square[:-1, :-1], square[:-1, -1]) * lengths[-1] / lengths[:-1]
    if pairs.noise:  # which may make lengths of columns next to nothing
        weights *= LONGEST / max(float(np.linalg.norm(weights)), LONGEST)
    return np.asarray(weights)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of directions, one a row, how often their signs agree, and how sure that is."""

    left: np.ndarray
    right: np.ndarray
    agreements: np.ndarray
    noise: float  # variance of an agreement

    @classmethod
    def of(cls, told: Any) -> "_Pairs":
        directions = drawn_directions(told.kernel, told._hashes.draw)
        directions = directions / np.sqrt((directions**2).sum(axis=2, keepdims=True))
        signs = 1 - 2.0 * (np.arange(2**BITS) >> np.arange(BITS)[:, None] & 1)
        both = list(combinations(range(BITS), 2))
        noise = told.noise_error() if hasattr(told, "noise_error") else 0.0
        count = max(told.size(), noise, 1.0)
        table = np.asarray(told._table, np.float64) / count
        cells = noise / count * np.sqrt(told.rows)  # an estimate is the mean of a cell of each hash
        return cls(
            np.vstack([directions[i] for i, _ in both]),
            np.vstack([directions[j] for _, j in both]),
            np.concatenate([table @ (signs[i] * signs[j]) for i, j in both]),
            2**BITS * cells**2,
        )

    @property
    def variance(self) -> float:
        """Of an agreement, from what normal rows would have."""
        return MISFIT**2 + self.noise

    @property
    def unsure(self) -> float:
        """2 size times the variance of a correlation after the fit: 8 k s**2 of `_moments`."""
        size = self.left.shape[1]
        told = SLOPE * len(self.left) / size**2 / self.variance
        return float(2 * size / (told + 1 / PRIOR**2))

    def fitted(self, start: np.ndarray) -> np.ndarray:
        """The mean products of rows whose agreements are these."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        root = np.linalg.cholesky(start)
        left, right, size = self.left @ root, self.right @ root, len(root)
        even = share = np.eye(size)
        damp = np.sqrt(self.variance) / PRIOR
        rounds, inner = (ROUNDS, INNER) if left.size * size <= WORK else HASTY
        for _ in range(rounds):
            step = _Slopes.at(left, right, share)
            linear = LinearOperator(
                (len(left), size * size), matvec=step.forth, rmatvec=step.back, dtype=np.float64
            )
            # The penalty is for what differs from even rows, not from the round before.
            wanted = self.agreements - step.agreements + step.forth(share - even)
            found = lsqr(linear, wanted, damp=damp, atol=1e-6, btol=1e-6, iter_lim=inner)[0]
            share = _positive(even + found.reshape(size, size), 0.0)
        return np.asarray(root @ share @ root.T)


@dataclass(frozen=True)
class _Slopes:
    """How agreements follow from mean products, and how they change with them, near some."""

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
        told = np.clip(((one @ products) * other).sum(axis=1), -1.0, 1.0)
        return cls(one, other, told, 2 / np.pi / np.sqrt(np.maximum(1 - told**2, STEEP)))

    @property
    def agreements(self) -> np.ndarray:
        return np.asarray(2 / np.pi * np.arcsin(self.correlations))

    def forth(self, change: np.ndarray) -> np.ndarray:
        """What a symmetric change of the products does to every agreement."""
        one, other, half = self.left, self.right, self.correlations[:, None] / 2
        square = change.reshape(one.shape[1], -1)
        moved = ((one @ square) * (other - half * one)).sum(axis=1)
        return np.asarray(self.slopes * (moved - ((other @ square) * (half * other)).sum(axis=1)))

    def back(self, shares: np.ndarray) -> np.ndarray:
        """The transpose of `forth`."""
        one, other, half = self.left, self.right, self.correlations[:, None] / 2
        shares = (self.slopes * shares.reshape(-1))[:, None]
        square = (shares * one).T @ (other - half * one) - (shares * other).T @ (half * other)
        return np.asarray((square + square.T) / 2).reshape(-1)


def _positive(square: np.ndarray, unsure: float) -> np.ndarray:
    """The likeliest matrix without negative eigenvalues, as in `least_squares`."""
    values, vectors = np.linalg.eigh(square)
    values = (values + np.sqrt(values**2 + unsure)) / 2
    return np.asarray((vectors * np.maximum(values, FLAT)) @ vectors.T)


def _even(size: int) -> np.ndarray:
    """Mean products of rows that are spread evenly in the box: public, and the same every time."""
    rows = lifted(np.random.default_rng(0).uniform(-1, 1, (EVEN, size - 2)))
    return np.asarray(rows.T @ rows / EVEN + FLAT / size * np.eye(size))


BATCH, SEARCH_ROUNDS = 100, 20
BUDGET = BATCH * SEARCH_ROUNDS
KEPT = BATCH // 5  # of the best points so far, around which the next are drawn
SHRINK = 0.93  # of a step, from round to round
FITTED = BUDGET // 4  # numbers of a quadratic up to which the values can tell it


def least(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, curved: float, seed: int
) -> np.ndarray:
    """Weights of a small loss among those of a length up to `longest`.

    Guarantee: `loss` takes points, one a row, and is asked 20 times at 100 of them: 0 and random
    ones, then points near the best so far, by steps that shrink. The answer is the least of the
    quadratic closest to all values, with a curvature of at least `curved` (above 0) everywhere:
    errors of single values, of which the least value itself is the luckiest, average out in it.
    Past 30 weights, where 2000 values do not tell a quadratic, it is the mean of the 20 best
    points. Equal arguments give equal weights.

    >>> wanted = np.array([0.5, -0.25])
    >>> found = least(lambda points: ((points - wanted) ** 2).sum(axis=1), 2, 2.0, 0.1, seed=0)
    >>> found.round(6).tolist()
    [0.5, -0.25]
    """
    points, values = _asked(loss, size, longest, np.random.default_rng(seed))
    if (size + 1) * (size + 2) // 2 <= FITTED:
        found = _bottom(points, values, curved)
    else:
        found = points[np.argsort(values, kind="stable")[:KEPT]].mean(axis=0)
    return np.asarray(_inside(found[None], longest)[0])


def _asked(
    loss: Callable[[np.ndarray], np.ndarray], size: int, longest: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All points that were tried, and their values."""
    points = rng.normal(0.0, 1.0, (BATCH, size))
    lengths = longest * rng.uniform(0, 1, (BATCH, 1)) ** (1 / size)  # even in the ball
    points *= lengths / np.linalg.norm(points, axis=1, keepdims=True)
    points[0] = 0.0
    values, step = loss(points), longest / 2
    for _ in range(SEARCH_ROUNDS - 1):
        best = points[np.argsort(values, kind="stable")[:KEPT]]
        near = best[rng.integers(KEPT, size=BATCH)]
        near = _inside(near + rng.normal(0.0, step / np.sqrt(size), near.shape), longest)
        points, values = np.vstack([points, near]), np.append(values, loss(near))
        step *= SHRINK
    return points, values


def _bottom(points: np.ndarray, values: np.ndarray, curved: float) -> np.ndarray:
    """Where the quadratic closest to the values is least, were it as curved as it must be."""
    size = points.shape[1]
    one, other = np.triu_indices(size)
    columns = [np.ones((len(points), 1)), points, points[:, one] * points[:, other]]
    told = np.linalg.lstsq(np.hstack(columns), values, rcond=None)[0]
    slope, square = told[1 : size + 1], np.zeros((size, size))
    square[one, other] = told[size + 1 :]
    curvatures, vectors = np.linalg.eigh(square + square.T)
    return np.asarray(-vectors @ ((vectors.T @ slope) / np.maximum(curvatures, curved)))


def _inside(points: np.ndarray, longest: float) -> np.ndarray:
    """Points beyond the ball, drawn back to its edge."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points * (longest / np.maximum(lengths, longest)))


PULL = 0.5  # deviations of a loss, for weights of length 1
MORE = 4  # times the hashes of angles, since they err by more than their noise


def surrogate_rows(columns: int, epsilon: float | None, delta: float) -> int:
    """How many hashes, by public numbers."""
    return min(MORE * suggested_rows(columns, epsilon, delta), MOST)


def surrogate_loss(told: Any, weights: np.ndarray) -> np.ndarray:
    """The mean surrogate loss of weights of (1, x), one vector a row, by a sketch or a release."""
    ones = np.ones((len(weights), 1))
    asked = np.hstack([weights, -ones, 0 * ones])  # 0 for what makes a row one of length 1
    both = told.estimate(np.vstack([asked, -asked])).reshape(2, -1).sum(axis=0)
    return np.asarray(both / _count(told))


def searched(told: Any) -> np.ndarray:
    """Weights of (1, x), at most 2 long, whose surrogate loss and pull are small together."""
    pull = PULL * _error(told)
    return least(
        lambda weights: surrogate_loss(told, weights) + pull * (weights**2).sum(axis=1),
        told.kernel.dimension - 2,
        LONGEST,
        2 * pull,  # the curvature of the pull alone
        told.seed,
    )


def _noise(told: Any) -> float:
    return float(told.noise_error()) if hasattr(told, "noise_error") else 0.0


def _count(told: Any) -> float:
    return max(float(told.size()), _noise(told), 1.0)


def _error(told: Any) -> float:
    """Deviation of a loss: by hashing, were all rows alike and at right angles, and by noise."""
    hashing = 2 * 2.0**-BITS / told.rows
    return float(np.sqrt(hashing + 2 * (_noise(told) / _count(told)) ** 2))

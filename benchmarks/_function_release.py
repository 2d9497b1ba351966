"""Other ways to release a kernel mean, each as small as it can be, for the benchmarks alone.

Every one takes points and queries in the unit box, the kernel as a function of distance, and
(epsilon, delta), and returns a function of queries. Their noise is NumPy's, in floats: they are
here to be compared with, not to be used.
"""

from dataclasses import dataclass, field
from itertools import product
from math import comb, log, sqrt

import numpy as np

BLOCK = 1 << 22  # pairs of points held at a time


@dataclass(frozen=True)
class Task:
    """Points of the unit box, the kernel of a distance, and what the release may cost."""

    points: np.ndarray
    kernel: object
    epsilon: float
    delta: float
    rng: np.random.Generator
    memo: dict = field(default_factory=dict)  # sums without noise, for further runs on these points

    @property
    def dimension(self):
        return self.points.shape[1]

    def known(self, places):
        """Kernel sums of the points at places that are the same in every run."""
        key = places.tobytes()
        if key not in self.memo:
            self.memo[key] = self.sums(places)
        return self.memo[key]

    def sums(self, places, points=None):
        """Kernel sums of the points (or others) at some places."""
        points = self.points if points is None else points
        out = np.zeros(len(places))
        step = max(1, BLOCK // len(points))
        for start in range(0, len(places), step):
            part = places[start : start + step]
            out[start : start + step] = self.between(part, points).sum(1)
        return out

    def between(self, first, second):
        square = (first**2).sum(1)[:, None] + (second**2).sum(1) - 2 * first @ second.T
        return self.kernel(np.sqrt(np.maximum(square, 0)))

    def laplace(self, sensitivity, size):
        return self.rng.laplace(0, sensitivity / self.epsilon, size)

    def gaussian(self, sensitivity, size):
        sigma = sensitivity * sqrt(2 * log(1.25 / self.delta)) / self.epsilon
        return self.rng.normal(0, sigma, size)


def lattice(side, dimension):
    """The centres of a grid of cells in the unit box."""
    ticks = (np.arange(side) + 0.5) / side
    return np.array(list(product(ticks, repeat=dimension)))


def trigonometric(task, degrees=(24, 8, 5)):
    """Fourier coefficients of the sum with noise (Wang, Fan, Zhang and Wang 2013).

    The kernel is made periodic with period 2, twice the box, so that no two points wrap around.
    """
    degree, d = degrees[task.dimension - 1], task.dimension
    waves = np.array([w for w in product(range(-degree, degree + 1), repeat=d) if w >= (0,) * d])
    side = 4 * degree + 2  # samples of the kernel on [-1, 1)^d
    ticks = np.arange(side) * 2 / side
    ticks = np.minimum(ticks, 2 - ticks)
    far = np.sqrt(sum(axis**2 for axis in np.meshgrid(*[ticks] * d, indexing="ij")))
    spectrum = np.fft.fftn(task.kernel(far)).real / side**d
    weights = spectrum[tuple(waves.T % side)] * np.where(waves.any(1), 2, 1)
    if "waves" not in task.memo:
        task.memo["waves"] = _wave_sums(task.points, waves)
    sums = task.memo["waves"] + task.laplace(sqrt(2) * len(waves), (2, len(waves)))

    def mean(queries):
        angles = np.pi * queries @ waves.T
        result = np.cos(angles) @ (weights * sums[0]) + np.sin(angles) @ (weights * sums[1])
        return result / len(task.points)

    return mean


def _wave_sums(points, waves):
    sums = np.zeros((2, len(waves)))
    for start in range(0, len(points), 4096):
        angles = np.pi * points[start : start + 4096] @ waves.T
        sums += np.cos(angles).sum(0), np.sin(angles).sum(0)
    return sums


def bernstein(task, degrees=(24, 10, 6), iterations=3):
    """Noisy values on a grid, joined by iterated Bernstein polynomials (Alda, Rubinstein 2017)."""
    degree, d = degrees[task.dimension - 1], task.dimension
    ticks = np.arange(degree + 1) / degree
    places = np.array(list(product(ticks, repeat=d)))
    values = task.known(places) + task.laplace(len(places), len(places))
    basis = lambda t: np.stack(  # noqa: E731
        [comb(degree, k) * t**k * (1 - t) ** (degree - k) for k in range(degree + 1)], -1
    )
    rest = np.eye(degree + 1) - basis(ticks)
    # The iterated operator I - (I - B)^h is B times the sum of (I - B)^j over j < h.
    lift = sum(np.linalg.matrix_power(rest, j) for j in range(iterations))
    table = values.reshape((degree + 1,) * d)
    for axis in range(d):
        table = np.moveaxis(np.tensordot(lift, table, (1, axis)), 0, axis)

    def mean(queries):
        out = np.broadcast_to(table, (len(queries), *table.shape))
        for axis in range(d):
            out = np.einsum("qk,qk...->q...", basis(queries[:, axis]), out)
        return out / len(task.points)

    return mean


def functional(task, sides=(256, 24, 9), ridge=1e-5):
    """PFDA: a smoothed function plus a Gaussian process of the kernel (Mirshani et al. 2019)."""
    side, d = sides[task.dimension - 1], task.dimension
    places = lattice(side, d)
    values, vectors = np.linalg.eigh(task.between(places, places))
    retained = values > 1e-9 * values.max()
    values, vectors = values[retained], vectors[:, retained]
    shrink = values / (values + ridge * len(places))
    # One point moves the function by the smoothed kernel at its place; this is its longest norm.
    norms = ((vectors * shrink) ** 2 * values).sum(1)
    noise = vectors @ (np.sqrt(values) * task.rng.normal(size=len(values)))
    smoothed = vectors @ (shrink * (vectors.T @ task.known(places)))
    scale = sqrt(norms.max()) * sqrt(2 * log(2 / task.delta)) / task.epsilon
    return interpolated((smoothed + scale * noise).reshape((side,) * d), len(task.points))


def embedding(task, features=1024, places=1024, ridge=1e-2):
    """KME: weights on public points of mean features near the noisy ones (Balog et al. 2018)."""
    d, rng = task.dimension, task.rng
    public = rng.random((places, d))
    frequencies = task.kernel.frequencies(features, d, rng)
    angles = lambda points: points @ frequencies.T  # noqa: E731
    lift = lambda a: np.hstack([np.cos(a), np.sin(a)]) / sqrt(features)  # noqa: E731
    total = np.zeros(2 * features)
    for start in range(0, len(task.points), 4096):
        total += lift(angles(task.points[start : start + 4096])).sum(0)
    total += task.gaussian(1, 2 * features)
    design = lift(angles(public))
    gram = design @ design.T + ridge * np.eye(places)
    weights = np.linalg.solve(gram, design @ total)
    return lambda queries: task.between(queries, public) @ weights / len(task.points)


def marginals(task, side=32, drawn=20_000):
    """Synthetic points from a chain of noisy pair marginals: PrivBayes without its search of pairs.

    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017; the chain is that of the columns, public.
    """
    cells = np.minimum((task.points * side).astype(int), side - 1)
    d, rng = task.dimension, task.rng
    shares = max(d - 1, 1)
    if d == 1:
        first = np.bincount(cells[:, 0], minlength=side) + task.laplace(1, side)
        drawn_cells = rng.choice(side, (drawn, 1), p=positive(first))
    else:
        drawn_cells = np.zeros((drawn, d), int)
        for j in range(d - 1):
            pairs = np.bincount(cells[:, j] * side + cells[:, j + 1], minlength=side**2)
            table = positive(pairs + task.laplace(shares, side**2)).reshape(side, side)
            if j == 0:
                drawn_cells[:, 0] = rng.choice(side, drawn, p=table.sum(1))
            rows = table.sum(1, keepdims=True)
            steps = np.cumsum(np.where(rows > 0, table / np.maximum(rows, 1e-300), 1 / side), 1)
            level = rng.random((drawn, 1))
            following = (steps[drawn_cells[:, j]] < level).sum(1)
            drawn_cells[:, j + 1] = np.minimum(following, side - 1)
    synthetic = (drawn_cells + rng.random((drawn, d))) / side
    return lambda queries: task.sums(queries, synthetic) / drawn


def weights_updated(task, sides=(128, 24), rounds=20, passes=50):
    """MWEM: a distribution on a grid, mended where it is worst (Hardt, Ligett, McSherry 2012)."""
    side, d = sides[task.dimension - 1], task.dimension
    places = lattice(side, d)
    answers, truth = task.between(places, places), task.known(places)
    count, each = len(task.points), task.epsilon / (2 * rounds)
    weights, requested = np.full(len(places), 1 / len(places)), []
    for _ in range(rounds):
        errors = np.abs(answers @ weights * count - truth)
        worst = int(np.argmax(errors + task.rng.gumbel(0, 2 / each, len(errors))))
        requested.append((worst, truth[worst] + task.rng.laplace(0, 1 / each)))
        for place, result in requested * passes:  # going over all answers again costs nothing
            gap = result - answers[place] @ weights * count
            weights = weights * np.exp(answers[place] * gap / (2 * count))
            weights /= weights.sum()
    return lambda queries: task.between(queries, places) @ weights


def positive(counts):
    counts = np.maximum(counts, 0)
    return counts / counts.sum()


def interpolated(values, count):
    """A function between the values on a lattice of cell centres, linear in each coordinate."""
    from scipy.interpolate import RegularGridInterpolator

    ticks = (np.arange(values.shape[0]) + 0.5) / values.shape[0]
    inside = RegularGridInterpolator((ticks,) * values.ndim, values)
    return lambda queries: inside(np.clip(queries, ticks[0], ticks[-1])) / count


METHODS = {
    "trigonometric": trigonometric,
    "Bernstein": bernstein,
    "PFDA": functional,
    "kernel mean embedding": embedding,
    "pair marginals (PrivBayes)": marginals,
    "MWEM": weights_updated,
}

"""Sampling from a function known by its values: rejection, populations, matched kernel sums.

Matching finds weighted points, and a uniform part, with the kernel sums of a sketch, which undoes
the kernel's smoothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.core.bounds import Pair
from sfumato.density.evaluation_grid import Field
from sfumato.density.kernel_shrinkage import UniformMeans
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = ["Match", "by_population", "by_rejection", "matched"]

Values = Callable[[np.ndarray], np.ndarray]

CELLS = 2**14  # cells of the envelope, at most
PROBES = 4  # values evaluated in each cell of it
MARGIN = 1.25  # height of a cell over the largest value found in it
TRIES = 400  # proposals per point before rejection gives up
PARTICLES = 1024  # in a population, at least
MOVES = 3  # Metropolis steps of each particle at a temperature
LAST_MOVES = 24  # at the last one
LEAST = 1e-100  # fraction of the largest value found that stands for zero


def by_rejection(values: Values, bounds: Pair, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points with density proportional to the positive part of the values, within the bounds.

    The envelope is constant on cells of the box, a quarter above the largest of four values in
    each. If a later value is higher, the cell is raised and all points are drawn again, so that no
    accepted point came from an envelope known to be too low. Raises RuntimeError if too few
    proposals are accepted, as happens in many dimensions.

    Caffo, Booth and Davis 2002: rejection sampling with an empirical supremum.
    """
    envelope = _Envelope.of(values, bounds, rng)
    accepted_parts: list[np.ndarray] = []
    found, remaining = 0, TRIES * max(size, 64)
    while found < size:
        if remaining <= 0:
            raise RuntimeError(
                "sample: rejection accepted too few proposals; take method='mcmc', or a larger "
                "bandwidth."
            )
        tried = min(max(4 * (size - found), 1024), 2**16)
        accepted, raised = envelope.tried(values, tried, rng)
        remaining -= tried
        accepted_parts = [] if raised else [*accepted_parts, accepted]
        found = sum(map(len, accepted_parts))
    return np.concatenate([*accepted_parts, np.empty((0, len(bounds[0])))])[:size]


@dataclass
class _Envelope:
    """A function that is constant on equal cells of a box."""

    low: np.ndarray
    sides: np.ndarray
    shape: tuple[int, ...]
    heights: np.ndarray

    @classmethod
    def of(cls, values: Values, bounds: Pair, rng: np.random.Generator) -> "_Envelope":
        low, high = np.array(bounds[0]), np.array(bounds[1])
        each = max(1, int(CELLS ** (1 / low.size) + 1e-9))
        shape = (each,) * low.size
        envelope = cls(low, (high - low) / each, shape, np.zeros(each**low.size))
        cells = np.repeat(np.arange(envelope.heights.size), PROBES)
        heights = _positive(values, envelope.points(cells, rng))
        envelope.heights = MARGIN * heights.reshape(-1, PROBES).max(axis=1)
        # A cell of only zeros may still hold mass: it keeps a small probability of proposals.
        envelope.heights += max(envelope.heights.mean(), 1e-300) / 100
        return envelope

    def points(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a uniform point of each of these cells."""
        if self.heights.size == 1:  # there may be more columns than NumPy has axes
            return np.asarray(self.low + rng.random((cells.size, self.low.size)) * self.sides)
        positions = np.column_stack(np.unravel_index(cells, self.shape))
        return np.asarray(self.low + (positions + rng.random(positions.shape)) * self.sides)

    def tried(
        self, values: Values, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, bool]:
        """Draw proposals; return those accepted, and whether any value exceeded the envelope."""
        ends = np.cumsum(self.heights)
        cells = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
        cells = np.minimum(cells, self.heights.size - 1)
        points = self.points(cells, rng)
        observed = _positive(values, points)
        accepted = rng.random(count) * self.heights[cells] < observed
        above = observed > self.heights[cells]
        np.maximum.at(self.heights, cells[above], MARGIN * observed[above])
        return points[accepted], bool(above.any())


def by_population(values: Values, bounds: Pair, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points with density nearly proportional to the positive part of the values.

    This works in any dimension. A population starts uniform in the box and follows powers of the
    values from 0 to 1, each chosen so that half of the population stays effective: it is resampled,
    then moved by Metropolis steps along differences of the other half of the population. The points
    are not quite independent.

    Sequential Monte Carlo samplers: Del Moral, Doucet and Jasra 2006. Steps: ter Braak 2006
    (differential evolution), in halves as in Goodman and Weare 2010.
    """
    low, high = np.array(bounds[0]), np.array(bounds[1])
    count = 2 * math.ceil(max(size, PARTICLES) / 2)
    points = low + rng.random((count, low.size)) * (high - low)
    logs = _logs(values, points)
    power = 0.0
    while power < 1:
        step = _next_step(logs, 1 - power)
        power = 1.0 if step >= 1 - power else power + step
        chosen = _resampled(np.exp(step * (logs - logs.max())), rng)
        points, logs = points[chosen], logs[chosen]
        for _ in range(MOVES if power < 1 else LAST_MOVES):
            _move(values, points, logs, (low, high), power, rng)
    return np.asarray(points[rng.permutation(count)[:size]])


def _move(
    values: Values,
    points: np.ndarray,
    logs: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    power: float,
    rng: np.random.Generator,
) -> None:
    """Move each particle by one Metropolis step in place: each half along the other."""
    count, dimension = points.shape
    order = rng.permutation(count)
    for mine, theirs in (np.split(order, 2), np.split(order, 2)[::-1]):
        one, other = rng.choice(theirs, mine.size), rng.choice(theirs, mine.size)
        length = np.where(rng.random(mine.size) < 0.1, 1.0, 2.38 / math.sqrt(2 * dimension))
        step = (points[one] - points[other]) * length[:, None]
        step += rng.normal(size=step.shape) * (box[1] - box[0]) * 1e-3
        fresh = _reflected(points[mine] + step, *box)
        proposed_logs = _logs(values, fresh, logs.max())
        taken = np.log(rng.random(mine.size)) < power * (proposed_logs - logs[mine])
        points[mine[taken]], logs[mine[taken]] = fresh[taken], proposed_logs[taken]


def _reflected(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Reflect points at the sides of the box: symmetric, so that Metropolis stays valid."""
    turns = np.mod(points - low, 2 * (high - low))
    return np.asarray(low + np.minimum(turns, 2 * (high - low) - turns))


def _next_step(logs: np.ndarray, remaining: float) -> float:
    """The largest power up to `remaining` whose weights leave half of the particles effective."""
    low, high = 0.0, remaining
    if _effective(logs, high) >= logs.size / 2:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _effective(logs, middle) >= logs.size / 2 else (low, middle)
    return max(low, 1e-6)


def _effective(logs: np.ndarray, power: float) -> float:
    """Effective sample size of the weights exp(power * logs)."""
    weights = np.exp(power * (logs - logs.max()))
    return float(weights.sum() ** 2 / (weights**2).sum())


def _resampled(
    weights: np.ndarray, rng: np.random.Generator, size: int | None = None
) -> np.ndarray:
    """As many indices as weights, or this many, in proportion to them by systematic resampling."""
    ends, count = np.cumsum(weights), weights.size if size is None else size
    marks = (np.arange(count) + rng.random()) / max(count, 1) * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, marks), weights.size - 1))


def _positive(values: Values, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(values(points), 0.0))


def _logs(values: Values, points: np.ndarray, known: float = -math.inf) -> np.ndarray:
    """Logarithms of values; non-positive ones are floored relative to the largest known value."""
    observed = _positive(values, points)
    largest = max(float(observed.max(initial=0.0)), math.exp(known))
    return np.asarray(np.log(np.maximum(observed, max(LEAST * largest, 1e-300))))


POSITIONS = 1023  # candidate points at a time: their kernel matrix has 4 MiB
ROUNDS = 2  # the second puts candidates where the first found weight
STEPS = 30  # of each round; more would fit the noise
POWER_STEPS = 8  # for the largest eigenvalue, which bounds a step
TABLE = 2**14  # values of the kernel
NEIGHBOUR = 3  # the neighbour, itself the first, whose distance scales the jitter of a point


@dataclass(frozen=True)
class Match:
    """Weighted points and a uniform part whose kernel sums together match a field.

    weights sum to 1, and all points have 1 - even of the draws; deviations: of the jitter of draws
    around each.
    """

    positions: np.ndarray
    weights: np.ndarray
    deviations: np.ndarray
    even: float = 0.0

    def drawn(self, field: Field, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw points near the positions in proportion to their weights, within the bounds.

        Draws are spread as evenly as these proportions allow (systematic resampling, and points of
        low discrepancy for the uniform part), so that their kernel sums vary less than those of
        independent ones. Their order is random.
        """
        chosen = _resampled(np.append((1 - self.even) * self.weights, self.even), rng, size)
        near = chosen[chosen < len(self.weights)]
        jitter = rng.normal(size=(near.size, field.dimension)) * self.deviations[near, None]
        around = np.clip(self.positions[near] + jitter, *map(np.array, field.bounds))
        found = np.concatenate([around, spread(field.bounds, size - near.size, rng)])
        return np.asarray(found[rng.permutation(size)])


def spread(bounds: Pair, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points that are each uniform in a box, and together of low discrepancy.

    Multiples of irrational steps from a uniform start: Kronecker sequence, with the powers of the
    root of x**(d + 1) = x + 1 (the golden ratio for one column) as its steps.
    """
    low, high = np.array(bounds[0]), np.array(bounds[1])
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (low.size + 1))
    steps = root ** -np.arange(1.0, low.size + 1)
    parts = (rng.random(low.size) + np.arange(size)[:, None] * steps) % 1
    return np.asarray(low + parts * (high - low))


def matched(field: Field, rng: np.random.Generator) -> Match:
    """Find points in the box and weights that reproduce the kernel sums of the field.

    The weights w are non-negative, sum to 1, and minimise w K w / 2 - w f: half the squared
    distance in the reproducing kernel Hilbert space between them and the data, up to a constant and
    the errors of f, so that f is needed only at the points. Candidates are uniform points of the
    box, points drawn from the field, and points drawn from its power d + 1, which is integrable
    even where the kernel falls as 1 / distance. The uniform part is that which comes nearest, mixed
    with these points: where the field shows nothing but a uniform density, it is nearly all.

    The distance (maximum mean discrepancy): Gretton et al. 2012. Its minimisation: Beck and
    Teboulle 2009 (accelerated proximal gradient), with the restarts of O'Donoghue and Candes 2015.
    """
    third = POSITIONS // 3
    sharp = partial(_power, field, field.dimension + 1)
    positions = np.concatenate(
        [
            field.uniform(third, rng),
            by_population(field.values, field.bounds, third, rng),
            by_population(sharp, field.bounds, third, rng),
        ]
    )
    for remaining in reversed(range(ROUNDS)):
        kernel, sums = _kernel(field, positions), field.values(positions)
        weights = _simplex_weights(kernel, sums)
        if remaining:
            positions = _refined(field, positions, weights, rng)
    even = _even_part(field, positions, weights, (kernel @ weights, sums), rng)
    return Match(positions, weights, _deviations(positions), even)


def _even_part(
    field: Field,
    positions: np.ndarray,
    weights: np.ndarray,
    sums: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
) -> float:
    """The part of a uniform density that, mixed with the weighted points, is nearest to the field.

    sums: the kernel sums of the weighted points at the points, and those of the field.
    """
    setting = field.setting
    means = UniformMeans(setting.kernel, setting.bandwidth, field.bounds, setting.seed)
    box = spread(field.bounds, POSITIONS, rng)
    uniform, there = means.values(positions), means.values(box).mean()
    # Minimises the squared distance to the field along the segment from uniform to the points.
    apart = weights @ sums[0] - 2 * (weights @ uniform) + there
    slope = weights @ (sums[1] - uniform) - (field.values(box).mean() - there)
    return float(1 - np.clip(slope / max(float(apart), 1e-300), 0.0, 1.0))


def _power(field: Field, power: int, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(field.values(points), 0.0, 1.0) ** power)  # noise may pass 1


def _kernel(field: Field, positions: np.ndarray) -> np.ndarray:
    """The kernel matrix of the points within 1e-6, interpolated in a table over r / (1 + r)."""
    from scipy.spatial.distance import pdist, squareform

    far = pdist(positions) / field.setting.bandwidth
    at = TABLE * (far / (1 + far))
    lower = at.astype(np.int32)
    ends = np.arange(TABLE) / TABLE
    table = np.append(profile(field.setting.kernel, ends / (1 - ends)), 0.0)
    near = table[lower] + (at - lower) * np.diff(table, append=0.0)[lower]
    kernel = squareform(near.astype(np.float32), checks=False)
    np.fill_diagonal(kernel, 1.0)
    return np.asarray(kernel)


def _simplex_weights(kernel: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Minimise w K w / 2 - w f approximately on the simplex by accelerated projected gradient."""
    length = 1 / _largest_eigenvalue(kernel)
    sums = sums.astype(kernel.dtype)
    weights = ahead = np.full(sums.size, 1 / sums.size, kernel.dtype)
    pace = 1.0
    for _ in range(STEPS):
        fresh = _on_simplex(ahead - length * (kernel @ ahead - sums))
        if (fresh - weights) @ (ahead - fresh) > 0:
            pace = 1.0
        faster = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = fresh + (pace - 1) / faster * (fresh - weights)
        weights, pace = fresh, faster
    return np.asarray(weights / weights.sum(dtype=np.float64), np.float64)


def _largest_eigenvalue(kernel: np.ndarray) -> float:
    """An estimate above the largest eigenvalue of a positive matrix, by power iteration."""
    vector = np.ones(len(kernel), kernel.dtype)
    for _ in range(POWER_STEPS):
        vector = kernel @ vector
        vector /= np.linalg.norm(vector)
    return float(vector @ (kernel @ vector)) * 1.1


def _on_simplex(vector: np.ndarray) -> np.ndarray:
    """The nearest vector of non-negative numbers that sum to 1 (Duchi et al. 2008)."""
    falling = np.sort(vector)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, vector.size + 1)
    return np.asarray(np.maximum(vector - over[np.flatnonzero(falling > over)[-1]], 0.0))


def _refined(
    field: Field, positions: np.ndarray, weights: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The points with positive weight, and new points around them in place of the others."""
    used = positions[weights > 0]
    fresh = len(positions) - len(used)
    deviations = np.full(len(positions), field.setting.bandwidth / 2 / np.sqrt(field.dimension))
    return np.concatenate([used, Match(positions, weights, deviations).drawn(field, fresh, rng)])


def _deviations(positions: np.ndarray) -> np.ndarray:
    """Half the distance to a near neighbour, as a standard deviation along each axis."""
    from scipy.spatial import KDTree

    apart = KDTree(positions).query(positions, NEIGHBOUR)[0][:, -1]
    return np.asarray(apart / 2 / np.sqrt(positions.shape[1]))
